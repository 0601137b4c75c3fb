import fs from 'node:fs'
import tls from 'node:tls'
import type { Context } from '../context.ts'
import { messageOf } from '../platform/errors.ts'
import { DAY_MS, SECOND_MS, unixSeconds } from '../platform/time.ts'
import type { Finding, FindingReader } from './finding.ts'

/** Permission bits of anyone but the owner. */
const OTHERS = 0o077
/** Where container engines mount secrets, readable for all in the container. */
const MOUNTED_SECRETS = '/run/secrets/'
/** Secrets that anyone can make anew. */
const REPLACEABLE: ReadonlySet<string> = new Set(['OPERATOR_TOKEN', 'METRICS_TOKEN', 'CHALLENGE_SECRET'])
const ENDING_SECONDS = (7 * DAY_MS) / SECOND_MS
const CONNECT_LIMIT_MS = 900

/** What is wrong with this host, and with the proxy that agents reach the API through. */
export const hostFindings: FindingReader = {
  name: 'host',
  needs: 'nothing',
  read: async (ctx) => [...findReadableSecrets(ctx), await checkCertificate(ctx)],
}

/** Finds files with secrets that others than their owner may read. */
function findReadableSecrets({ config }: Context): Finding[] {
  const readable = config.secretFiles.filter(({ file }) => {
    const stat = fs.statSync(file, { throwIfNoEntry: false })
    return !file.startsWith(MOUNTED_SECRETS) && stat !== undefined && (stat.mode & OTHERS) !== 0
  })
  return readable.map(({ name, file }) => {
    const isReplaceable = REPLACEABLE.has(name)
    return {
      kind: 'secret_readable',
      about: name,
      what: `Others on this host can read ${file}`,
      why: isReplaceable
        ? 'it counts as leaked: a new one is needed, and a start of what reads it'
        : 'it counts as leaked if others had access: see "Another key" in docs/repair.md',
      command: isReplaceable
        ? `(umask 077; rm -f '${file}'; openssl rand -hex 32 > '${file}')   # then start again what reads it`
        : `chmod 600 '${file}'`,
    }
  })
}

/**
 * Looks at the certificate that the proxy before the API shows at BASE_URL.
 *
 * @returns undefined if it is valid for longer than a week, or BASE_URL isn't https
 */
async function checkCertificate({ config, ...ctx }: Context): Promise<Finding | undefined> {
  const { publicUrl } = config
  if (publicUrl?.startsWith('https:') !== true) return undefined
  const { hostname, port } = new URL(publicUrl)
  const command = `renew the certificate of ${hostname} at the proxy, and have the proxy read it again`
  try {
    const endsAt = await readCertificateEnd(hostname, Number(port || 443))
    const leftSeconds = endsAt - unixSeconds(ctx.now())
    if (leftSeconds > ENDING_SECONDS) return undefined
    const at = new Date(endsAt * SECOND_MS).toISOString()
    return leftSeconds <= 0
      ? {
          kind: 'certificate_ended',
          since: endsAt,
          what: `The certificate of ${publicUrl} has expired: agents refuse the connection`,
          why: `it was valid until ${at}`,
          command,
        }
      : {
          kind: 'certificate_ending',
          what: `The certificate of ${publicUrl} expires within a week`,
          why: `it is valid until ${at}`,
          command,
        }
  } catch (error) {
    return {
      kind: 'front_away',
      what: `Nobody answers at ${publicUrl}, as seen from here`,
      why: messageOf(error),
      command: `start the proxy, or look at its log; curl -v ${publicUrl}/healthz shows what agents see`,
    }
  }
}

/**
 * Reads when the certificate at `host` and `port` expires, in Unix seconds. The certificate isn't verified,
 * so that one that has expired can be read.
 *
 * @throws Error if nobody answers there
 */
function readCertificateEnd(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const name = host.replace(/^\[|\]$/g, '')
    const isIpAddress = /^[\d.]+$|:/.test(name)
    const options = {
      host: name,
      port,
      rejectUnauthorized: false,
      ...(isIpAddress ? {} : { servername: name }),
    }
    const socket = tls.connect(options, () => {
      const { valid_to: validTo } = socket.getPeerCertificate()
      socket.destroy()
      resolve(Date.parse(validTo) / SECOND_MS)
    })
    socket.setTimeout(CONNECT_LIMIT_MS, () => socket.destroy(new Error('it does not answer in time')))
    socket.once('error', reject)
  })
}
