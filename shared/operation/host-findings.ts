import fs from 'node:fs'
import tls from 'node:tls'
import type { Context } from '../context.ts'
import { DAY_MS, SECOND_MS, unixSeconds } from '../foundation/time.ts'
import type { Finding, FindingReader } from './finding.ts'

/** Permission bits of anyone but the owner. */
const OTHERS = 0o077
/** Where container engines mount secrets, readable for all in the container. */
const MOUNTED_SECRETS = '/run/secrets/'
const ENDING_SECONDS = (7 * DAY_MS) / SECOND_MS
const FRONT_LIMIT_MS = 900

/** What is wrong with this host, and with the way in from outside. */
export const hostFindings: FindingReader = {
  name: 'host',
  needs: 'nothing',
  async read(ctx) {
    return [...findReadableSecrets(ctx), ...(await findCertificate(ctx))]
  },
}

function findReadableSecrets({ config }: Context): Finding[] {
  return config.secretFiles.flatMap(({ name, file }): Finding[] => {
    const mode = file.startsWith(MOUNTED_SECRETS) ? 0 : fs.statSync(file, { throwIfNoEntry: false })?.mode
    if (((mode ?? 0) & OTHERS) === 0) return []
    const isMadeAnew = name === 'OPERATOR_TOKEN' || name === 'CHALLENGE_SECRET'
    return [
      {
        kind: 'secret_readable',
        about: name,
        what: `Others on this host can read ${file}`,
        why: isMadeAnew
          ? 'it counts as leaked: a new one is needed, and a start of what reads it'
          : 'it counts as leaked if others had access: see "Another key" in docs/operators.md',
        command: isMadeAnew
          ? `(umask 077; rm -f '${file}'; openssl rand -hex 32 > '${file}')   # then start again what reads it`
          : `chmod 600 '${file}'`,
      },
    ]
  })
}

/** Of the proxy before the API, as those outside meet it. */
async function findCertificate({ config, ...ctx }: Context): Promise<Finding[]> {
  if (config.publicUrl?.startsWith('https:') !== true) return []
  const { hostname, port } = new URL(config.publicUrl)
  const command = `renew the certificate of ${hostname} at the proxy, and have the proxy read it again`
  try {
    const endsAt = await readCertificateEnd(hostname, Number(port || 443))
    const left = endsAt - unixSeconds(ctx.now())
    if (left > ENDING_SECONDS) return []
    const at = new Date(endsAt * SECOND_MS).toISOString()
    return left <= 0
      ? [
          {
            kind: 'certificate_ended',
            since: endsAt,
            what: `The certificate of ${config.publicUrl} has expired: agents refuse the connection`,
            why: `it was valid until ${at}`,
            command,
          },
        ]
      : [
          {
            kind: 'certificate_ending',
            what: `The certificate of ${config.publicUrl} expires within a week`,
            why: `it is valid until ${at}`,
            command,
          },
        ]
  } catch (error) {
    return [
      {
        kind: 'front_away',
        what: `Nobody answers at ${config.publicUrl}, as seen from here`,
        why: error instanceof Error ? error.message : String(error),
        command: `start the proxy, or look at its log; curl -v ${config.publicUrl}/healthz shows what agents see`,
      },
    ]
  }
}

/** @returns Unix seconds. Whether it is valid is not asked. */
function readCertificateEnd(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const name = host.replace(/^\[|\]$/g, '')
    const socket = tls.connect(
      {
        host: name,
        port,
        rejectUnauthorized: false,
        ...(/^[\d.]+$|:/.test(name) ? {} : { servername: name }),
      },
      () => {
        const { valid_to: validTo } = socket.getPeerCertificate()
        socket.destroy()
        resolve(Date.parse(validTo) / SECOND_MS)
      },
    )
    socket.setTimeout(FRONT_LIMIT_MS, () => socket.destroy(new Error('it does not answer in time')))
    socket.once('error', reject)
  })
}
