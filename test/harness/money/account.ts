/* Reads what the service tells its agents about money, and the chain, for the auditor. */
import { setTimeout as sleep } from 'node:timers/promises'
import { readLedger } from '../auditor/ledger.ts'
import { owedFor, type SeenInvoice, type SeenMarket } from '../auditor/outside.ts'
import { readBook, readInvoice, xnoRow } from './views.ts'
import { readTreasury } from './watch.ts'
import type { KnownInvoice, Market } from './world.ts'

const READ_AT_ONCE = 8
/** How often sums are read at most, a second apart: the service may show sums that are ten seconds old. */
const SOLVENCY_READINGS = 14

const seenInvoice = ({ id, address, agent, isForgotten }: KnownInvoice): SeenInvoice => ({
  ...{ id, address, by: agent.name, isForgotten },
})

/**
 * Reads everything that the agents know of. Orders and invoices that the network has forgotten are left out,
 * and marked `isForgotten` in the world. What agents are told of sums, and the ledger, is read by readSums().
 */
export async function readMarket(world: Market): Promise<SeenMarket> {
  const { chain, startedAtMs, treasury, orphanedSends } = world
  const [orders, passes]: [SeenMarket['orders'], SeenMarket['passes']] = [[], []]
  await forEachAtOnce(world.sales, async (sale) => {
    const book = await readBook(world, sale)
    sale.isForgotten = sale.invoice.isForgotten = book === undefined
    const { seller, buyer, invoice } = sale
    if (book !== undefined)
      orders.push({ seller: seller.name, buyer: buyer.name, known: seenInvoice(invoice), book })
  })
  const bought = world.invoices.filter(({ days }) => days !== undefined)
  await forEachAtOnce(bought, async (known) => {
    const invoice = await readInvoice(world, known)
    known.isForgotten = invoice === undefined
    if (invoice !== undefined) passes.push({ known: seenInvoice(known), invoice })
  })
  const given = world.invoices.map(seenInvoice)
  const accounts = [...given.map(({ address }) => address), ...(treasury === undefined ? [] : [treasury])]
  return {
    ...{ startedAtMs, orders, passes, given, treasury, nowMs: Date.now(), blocks: chain.allBlocks() },
    balances: new Map(accounts.map((address) => [address, chain.balanceOf(address)])),
    orphanedSends: new Set(orphanedSends),
    ...{ agents: [], ledger: [], stated: { owed: '', held: '', treasury: undefined } },
  }
}

/** Adds what agents are told of sums, the venue's statement and the ledger, at rest: no money may be moving. */
export async function readSums(world: Market, seen: SeenMarket): Promise<SeenMarket> {
  const agents: SeenMarket['agents'] = []
  for (const agent of world.agents) {
    const { json } = await world.ask(agent, 'me', 'GET', '/me')
    agents.push({ id: agent.id ?? '', name: agent.name, me: json })
  }
  const ledger = await readLedger(world.testbed.urls[0] ?? '')
  const owed = String(owedFor(seen))
  const stated = { owed: '', held: '' }
  for (let tries = 0; tries < SOLVENCY_READINGS; tries++) {
    if (stated.owed === owed && stated.held === owed) break
    if (tries > 0) await sleep(1_000)
    const { json } = await world.ask(undefined, 'solvency', 'GET', '/market/solvency')
    stated.owed = xnoRow<{ currency: string; now_raw: string }>(json['owed'])?.now_raw ?? ''
    stated.held = xnoRow<{ currency: string; held_raw: string }>(json['held'])?.held_raw ?? ''
  }
  return { ...seen, agents, ledger, stated: { ...stated, treasury: await readTreasury(world) } }
}

/** Does `work` for all items, READ_AT_ONCE of them at a time. */
async function forEachAtOnce<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = [...items]
  const workOff = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: READ_AT_ONCE }, workOff))
}
