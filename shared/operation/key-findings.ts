import { KEY_LEASES } from '../platform/lease-store.ts'
import { OPERATOR, type Finding, type FindingReader } from './finding.ts'

/**
 * Finds workers that were refused because their seed, wallet or seal key is not the one in use. A worker that
 * waits with the same key is fine.
 */
export const keyFindings: FindingReader = {
  name: 'keys',
  needs: 'mongodb',
  async read(ctx) {
    const hosts = await ctx.leases.listHosts()
    return hosts
      .filter(({ state }) => state === 'refused')
      .map(({ lease, host, publicName = '' }): Finding => {
        const isRightKeyAtWork = hosts.some((other) => other.lease === lease && other.state !== 'refused')
        const takeOver =
          lease === KEY_LEASES.seal
            ? `${OPERATOR} seal --adopt SEQ HASH   # on that host`
            : `${OPERATOR} reconcile ${lease === KEY_LEASES.xno ? 'xno' : 'xmr'} --take-over ${publicName}`
        return {
          kind: isRightKeyAtWork ? 'key_refused' : 'key_missing',
          about: `${lease}, ${host}`,
          what: `A worker on ${host} has another key than the ${lease} in use, and was refused`,
          why: `its key is that of ${publicName}${isRightKeyAtWork ? '; the right one is at work' : ', and no worker has the right one'}`,
          command: isRightKeyAtWork ? 'stop that worker, or give it the right key' : takeOver,
        }
      })
  },
}
