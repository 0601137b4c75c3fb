import type { Connection } from 'mongoose'
import type { AgentRecord } from '../../../../shared/agents/agent.ts'
import { createAgentStore } from '../../../../shared/agents/agent-store.ts'
import {
  acceptProposal,
  makeClaim,
  recordVerdict,
  storeOverdueClaims,
} from '../../../../shared/claims/claim-service.ts'
import { createClaimStore } from '../../../../shared/claims/claim-store.ts'
import {
  CLAIM_STATUSES,
  OUTCOMES,
  type ClaimRecord,
  type VerdictRecord,
} from '../../../../shared/claims/claim.ts'
import type { Context } from '../../../../shared/context.ts'
import { requireThat, stubs, tolerate } from '../stubs.ts'
import type { Scenario, World } from '../world.ts'
import { beginAgent, checkPass, readEntries } from './agents.ts'
import { rowsOf } from './books.ts'

const PATIENCE_MS = 10_000
const AGENTS = ['agt_a', 'agt_b', 'agt_c']
/** Ahead of every clock of a schedule, so that a claim can be made and is overdue soon. */
const SOON_SECONDS = 6

/** Agents make claims and proposals and give verdicts on each other's and their own; the operator accepts some. */
export const claimsScenario: Scenario = {
  name: 'claims',
  defineModels: openStores,
  play(world) {
    const { random, nowMs: beganMs } = world.schedule
    const open = () => openContext(world)
    for (const _id of AGENTS) beginAgent(world, _id)
    /** Ids of what the service has said is on record. */
    const acknowledged: string[] = []
    const claimIds = () => (world.set.latest('claims') as unknown as ClaimRecord[]).map(({ _id }) => _id)
    const rounds = (name: string, count: number, work: (ctx: Context) => Promise<unknown>): void => {
      const run = async (): Promise<void> => {
        const ctx = open()
        for (let round = 0; round < count; round++) {
          await world.pause(random.pick([100, 1_000]))
          await tolerate(() => work(ctx))
        }
      }
      world.spawn(name, run, 2)
    }
    for (const agent of AGENTS) {
      rounds(`claimant ${agent}`, 3, async (ctx) => {
        const resolve_by = Math.floor(ctx.now() / 1_000) + SOON_SECONDS
        const kind = random.chance(0.5) ? 'proposal' : 'fact'
        const made = await makeClaim(ctx, agent, {
          statement: 's',
          kind,
          ...(random.chance(0.5) ? { resolve_by } : {}),
        })
        acknowledged.push(made._id)
      })
      rounds(`judge ${agent}`, 4, async (ctx) => {
        const known = claimIds()
        if (known.length === 0) return
        const fields = { claim_id: random.pick(known), outcome: random.pick(OUTCOMES) }
        acknowledged.push((await recordVerdict(ctx, agent, fields)).verdict._id)
      })
    }
    rounds('sweep', 3, (ctx) => storeOverdueClaims(ctx))
    rounds('operator', 3, async (ctx) => {
      const known = claimIds()
      if (known.length > 0) await acceptProposal(ctx, random.pick(known), 1 + random.below(3))
    })
    const check = (): void => checkClaims(world, beganMs)
    return {
      check,
      async finish() {
        await new Promise((resolve) => setTimeout(resolve, 2 * SOON_SECONDS * 1_000))
        await storeOverdueClaims(open())
      },
      checkEnd() {
        check()
        const stored = new Set(
          ['claims', 'verdicts'].flatMap((name) =>
            rowsOf<{ _id: string }>(world, name).map(({ _id }) => _id),
          ),
        )
        const lost = acknowledged.filter((id) => !stored.has(id))
        requireThat(lost.length === 0, `what was acknowledged is lost: ${lost.join(' ')}`)
      },
    }
  },
}

function openStores(connection: Connection) {
  return { agents: createAgentStore(connection, PATIENCE_MS), claims: createClaimStore(connection) }
}

function openContext(world: World): Context {
  const stores = openStores(world.connection)
  const allowances = { spend: async () => true }
  return {
    ...stores,
    agents: { ...stores.agents, allowances },
    ...stubs(world),
    database: world.openDatabase(),
    config: { requestMs: PATIENCE_MS, databaseMs: PATIENCE_MS },
  } as unknown as Context
}

/** Counts are what they count, whoever was killed between them. */
function checkClaims(world: World, beganMs: number): void {
  const claims = new Map(rowsOf<ClaimRecord>(world, 'claims').map((claim) => [claim._id, claim]))
  const verdicts = rowsOf<VerdictRecord>(world, 'verdicts')
  for (const { _id, claim_id: id } of verdicts)
    requireThat(claims.has(id), `the verdict ${_id} is on no claim`)
  const standing = verdicts.filter(({ superseded }) => !superseded)
  const pairs = standing.map(({ claim_id: id, agent_id: agent }) => `${id} ${agent}`)
  requireThat(new Set(pairs).size === pairs.length, 'an agent has two standing verdicts on a claim')
  const countOf = (claim: ClaimRecord, outcome: string): number =>
    standing.filter(
      (one) => one.claim_id === claim._id && one.outcome === outcome && one.agent_id !== claim.agent_id,
    ).length
  for (const claim of claims.values())
    for (const outcome of OUTCOMES)
      requireThat(
        claim.standing[outcome] === countOf(claim, outcome),
        `${claim._id} counts ${claim.standing[outcome]} ${outcome}, not ${countOf(claim, outcome)}`,
      )
  const entries = readEntries(world, ['claims', 'verdicts', 'agents'])
  for (const agent of rowsOf<AgentRecord>(world, 'agents')) {
    const { _id, record } = agent
    const own = [...claims.values()].filter(({ agent_id: agent }) => agent === _id)
    for (const status of CLAIM_STATUSES) {
      const count = own.filter((claim) => claim.status === status).length
      requireThat(
        (record.claims[status] ?? 0) === count,
        `${_id} counts ${record.claims[status]} ${status}, not ${count}`,
      )
    }
    for (const outcome of OUTCOMES) {
      const count = own.reduce((sum, claim) => sum + claim.standing[outcome], 0)
      requireThat(
        (record.verdicts[outcome] ?? 0) === count,
        `${_id} counts ${record.verdicts[outcome]} ${outcome}, not ${count}`,
      )
    }
    const credits = checkPass(agent, entries, beganMs)
    const accepted = own.filter(({ status }) => status === 'accepted').length
    requireThat(credits.length === accepted, `${_id} has ${credits.length} credits for ${accepted} proposals`)
  }
}
