import type { LedgerEntry } from '../../../shared/crypto/receipt.ts'
import { ask, type Agent, type World } from '../world/agent.ts'
import { askAtRest } from '../world/at-rest.ts'
import { collectFindings, type Finding } from './finding.ts'
import { readAccounts } from './passes.ts'
import type { SeenAgent } from './seen.ts'
import type { Stored } from './stored.ts'

/** What an agent is told in the end, when nothing is broken. */
export interface SeenSelf {
  /** What `/me` answered to each token that it may have. */
  me: { status: number | undefined; error: string | undefined; json: Record<string, unknown> }[]
  /** Its messages by id; the status of the answer if they could not be read; undefined if it has no pass. */
  mailbox: Map<string, string> | number | undefined
}

/**
 * Asks `/me` with each token that an agent may have, and reads its mailbox with the one that works, which is
 * its `token` from then on.
 */
export async function readSelf(world: World, agent: Agent): Promise<SeenSelf> {
  // After a rotation whose answer was lost, one of two tokens must work. Both are tried here, without ask()'s
  // switch to the other one.
  const tokens = agent.otherToken === undefined ? [agent.token] : [agent.token, agent.otherToken]
  const me: SeenSelf['me'] = []
  for (const token of tokens) {
    const { status, error, json } = await askAtRest(() =>
      ask(world, { ...agent, token, otherToken: undefined }, 'last-me', 'GET', '/me'),
    )
    me.push({ status, error, json })
  }
  const good = me.findIndex(({ status }) => status === 200)
  if (good === -1) return { me, mailbox: undefined }
  agent.token = tokens[good] ?? ''
  agent.otherToken = undefined
  return { me, mailbox: me[good]?.json['pass_until'] === null ? undefined : await readMailbox(world, agent) }
}

/** Reads an agent's whole mailbox. @returns the status of the answer if it can't be read */
async function readMailbox(world: World, agent: Agent): Promise<Map<string, string> | number> {
  const given = new Map<string, string>()
  for (let after = '0'; ;) {
    const { status, json } = await askAtRest(() =>
      ask(world, agent, 'last-read-dm', 'GET', `/dm?after=${after}`),
    )
    if (status !== 200) return status ?? 0
    const messages = json['messages'] as { id: string; box: string }[]
    for (const { id, box } of messages) given.set(id, box)
    const last = messages.at(-1)?.id
    if (json['more'] !== true || last === undefined) return given
    after = last
  }
}

/** Checks that one token of each agent works, and that `/me` agrees with the ledger. */
export function checkSelves(
  agents: readonly SeenAgent[],
  stored: Stored,
  ledger: readonly LedgerEntry[],
): Finding[] {
  const { accounts } = readAccounts(ledger)
  const { findings, addFinding } = collectFindings()
  for (const { id, name, self } of agents) {
    if (id === undefined || self === undefined) continue
    const words = [id, name]
    const isBanned = stored.agents.find(({ _id }) => _id === id)?.banned_at !== undefined
    const good = self.me.filter(({ status, error }) => status === 200 || (isBanned && error === 'banned'))
    if (good.length !== 1) {
      const said = self.me.map(({ status, error }) => `${status} ${error ?? ''}`.trim()).join(' and ')
      addFinding(
        `${good.length} of ${self.me.length} possible tokens of ${id} work, and one should: ${said}`,
        ...words,
      )
      continue
    }
    if (isBanned) continue
    const me = good[0]?.json as {
      pass_until: string | null
      referrals: { registered: number; paying: number }
    }
    const account = accounts.get(id)
    if ((me.pass_until === null ? 0 : Date.parse(me.pass_until)) !== (account?.untilMs ?? 0))
      addFinding(`/me of ${id} says ${me.pass_until}, and the ledger ${account?.untilMs}`, ...words)
    if (me.referrals.paying !== account?.paying || me.referrals.registered !== account.registered)
      addFinding(
        `/me of ${id} says ${JSON.stringify(me.referrals)}, and the ledger ${account?.registered} registered and ${account?.paying} paying`,
        ...words,
      )
  }
  return findings
}

/** Checks that each mailbox holds what is stored for its agent, as it was sent, and nothing else. */
export function checkMailboxes(agents: readonly SeenAgent[], stored: Stored): Finding[] {
  const { findings, addFinding } = collectFindings()
  for (const { id, name, self, received } of agents) {
    if (self?.mailbox === undefined) continue
    if (typeof self.mailbox === 'number') {
      addFinding(`the mailbox of ${id} cannot be read: ${self.mailbox}`, name)
      continue
    }
    const expected = new Map(stored.messages.filter(({ to }) => to === id).map(({ _id, box }) => [_id, box]))
    for (const [message, box] of expected)
      if (self.mailbox.get(message) !== box)
        addFinding(`message ${message} to ${id} is stored and not handed out as it was sent`, message)
    for (const message of [...self.mailbox.keys(), ...received.keys()])
      if (!expected.has(message))
        addFinding(`message ${message} was handed to ${id} and is not stored`, message)
  }
  return findings
}
