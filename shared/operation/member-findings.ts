import type { Context } from '../context.ts'
import type { SetMember } from '../platform/database.ts'
import type { Finding, FindingReader } from './finding.ts'

/** A member that is further behind than this may lack minutes of writes that an election then waits for. */
const BEHIND_SECONDS = 60
/** What a member may be without being in need of anybody. */
const WELL = new Set(['PRIMARY', 'SECONDARY', 'ARBITER'])

/** What is wrong with single members of MongoDB's replica set, while it has a primary. */
export const memberFindings: FindingReader = {
  name: 'members',
  needs: 'mongodb',
  read: async ({ database }: Context) => checkMembers(await database.members()),
}

/** Makes a finding for each member that is away, not in service, or far behind: pure. */
export function checkMembers(members: readonly SetMember[]): Finding[] {
  const up = members.filter(({ isUp }) => isUp).length
  return members.flatMap((member) => {
    const what = describeTrouble(member)
    if (what === undefined) return []
    return [
      {
        kind: 'mongodb_degraded',
        about: member.name,
        what: `The MongoDB member ${member.name} ${what}`,
        why: `${up} of ${members.length} members are up, and writes need a majority${member.message === undefined ? '' : `; the primary says of it: ${member.message}`}`,
        command: `start mongod on ${member.name}, or look at its log; rs.status() on the primary shows the set`,
      },
    ]
  })
}

/** What is wrong with a member, as the rest of a sentence; undefined if nothing is. */
function describeTrouble({ state, isUp, lagSeconds = 0 }: SetMember): string | undefined {
  if (!isUp) return 'does not answer the primary'
  if (!WELL.has(state)) return `is in the state ${state}, and so takes no part`
  if (lagSeconds > BEHIND_SECONDS) return `is ${lagSeconds} s behind the primary`
  return undefined
}
