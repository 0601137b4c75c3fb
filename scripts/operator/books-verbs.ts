import { usageError } from '../../client/command/command-error.ts'
import { formatTime, setIn } from '../../client/command/format.ts'
import type { Context } from '../../shared/context.ts'
import { omitUndefined } from '../../shared/foundation/omit-undefined.ts'
import { moveBetween } from '../../shared/operation/check-money.ts'
import { formatGap } from '../../shared/operation/finding.ts'
import { COINS, formatAmount, type Coin } from '../../shared/payments/coin.ts'
import type { CoinRecord } from '../../shared/payments/coin-store.ts'
import type { LineFilter } from '../../shared/payments/journal-store.ts'
import { heldRaw, type Account, type AccountKind, type JournalLine } from '../../shared/payments/journal.ts'
import { defineOperatorVerb, limitOf, limitOption, type OperatorVerb, type Shown } from './verb.ts'

export const booksVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'books',
    words: [],
    options: {
      agent: { kind: 'text', value: 'AGENT_ID', help: 'the money of one agent' },
      order: { kind: 'text', value: 'ORDER_ID', help: 'of one market order' },
      coin: { kind: 'text', value: 'COIN', help: `${COINS.join(' or ')} alone` },
      ...limitOption('moves per coin at most'),
    },
    help: 'What each account of the books has and the moves that made it so, the newest first; in all, or of an agent or order',
    changes: false,
    run({ ctx, options: { agent, order, coin, ...options } }) {
      if (coin !== undefined && !isCoin(coin))
        throw usageError(`--coin expected ${COINS.join(' or ')}, got ${JSON.stringify(coin)}.`)
      const filter = omitUndefined({ agent_id: agent, order_id: order })
      return showBooks(ctx, coin === undefined ? COINS : [coin], filter, limitOf(options))
    },
  }),
]

const isCoin = (text: string): text is Coin => (COINS as readonly string[]).includes(text)

/** The books of some coins: all of them, or the moves and balances of the agent or order in `filter`. */
async function showBooks(
  ctx: Context,
  coins: readonly Coin[],
  filter: LineFilter,
  limit: number,
): Promise<Shown> {
  const isWhole = Object.keys(filter).length === 0
  const books = await Promise.all(coins.map((coin) => readBook(ctx, coin, filter, limit + 1)))
  return {
    answer: { ok: true, books: books.map((book) => viewBook(book, limit, isWhole)) },
    text: books.map((book) => formatBook(book, limit, isWhole)).join('\n\n'),
  }
}

async function readBook(ctx: Context, coin: Coin, filter: LineFilter, limit: number): Promise<Book> {
  const isWhole = Object.keys(filter).length === 0
  const [balances, lines, record, openings] = await Promise.all([
    isWhole ? readTotals(ctx, coin) : ctx.journal.balances(coin, filter),
    ctx.journal.list({ ...filter, coin }, limit),
    isWhole ? ctx.coins.findCoin(coin) : undefined,
    isWhole ? ctx.journal.listOpenings(coin) : [],
  ])
  return { coin, balances, lines, record, openings }
}

const viewBook = ({ coin, balances, lines, record, openings }: Book, limit: number, isWhole: boolean) => ({
  currency: coin,
  balances: [...balances].map(([account, raw]) => ({
    account,
    balance: show(raw, coin),
    balance_raw: String(raw),
  })),
  ...(isWhole
    ? {
        held_raw: String(heldRaw(balances)),
        gap_raw: record?.gap_raw ?? null,
        compared_at: record?.gap_at ?? null,
      }
    : {}),
  openings: openings.map((line) => ({
    move: line._id,
    at: line.at,
    operator_raw: String(openedRaw(line)),
  })),
  moves: lines.slice(0, limit).map(({ _id, amount_raw, ...line }) => ({
    move: _id,
    ...line,
    amount: show(BigInt(amount_raw), coin),
    amount_raw,
  })),
  truncated: lines.length > limit,
})

/** The balances of all accounts of a kind together. */
async function readTotals(ctx: Context, coin: Coin): Promise<ReadonlyMap<AccountKind, bigint>> {
  const totals = new Map<AccountKind, bigint>()
  for (const { from, to, sum } of await ctx.journal.flows(coin)) moveBetween(totals, from, to, sum)
  return totals
}

const show = (raw: bigint, coin: Coin): string =>
  raw < 0n ? `-${formatAmount(-raw, coin)}` : formatAmount(raw, coin)

interface Book {
  coin: Coin
  balances: ReadonlyMap<Account | AccountKind, bigint>
  /** One more than is shown if there are more. */
  lines: readonly JournalLine[]
  /** How the books compared with the chain; undefined for a part of the books. */
  record: CoinRecord | undefined
  openings: readonly JournalLine[]
}

/** What a wallet held beyond the books when they began with it: the operator's, below 0 if it held less. */
const openedRaw = ({ to, amount_raw: raw }: JournalLine): bigint =>
  to === 'operator' ? BigInt(raw) : -BigInt(raw)

function formatBook(
  { coin, balances, lines, record, openings }: Book,
  limit: number,
  isWhole: boolean,
): string {
  if (lines.length === 0) return `${coin}: no money has moved`
  const compared =
    record?.gap_raw === undefined
      ? 'not compared with the chain yet'
      : `${describeGap(record.gap_raw, coin)}, ${formatTime(record.gap_at ?? 0)}`
  return [
    isWhole ? `${coin}: ${show(heldRaw(balances), coin)} is held by the books; ${compared}` : `${coin}:`,
    setIn(
      [...balances]
        .sort()
        .map(([account, raw]) => `${account}  ${show(raw, coin)}`)
        .join('\n'),
    ),
    ...openings.map(
      (line) =>
        `The books began with a wallet that held ${show(openedRaw(line), coin)} beyond them, which is the operator's: ${line._id}`,
    ),
    setIn(lines.slice(0, limit).map(formatLine).join('\n')),
    ...(lines.length > limit ? ['There are older moves; --limit shows more.'] : []),
  ].join('\n')
}

/** How the chain compares with the books. */
export const describeGap = (gapRaw: string, coin: Coin): string =>
  gapRaw === '0'
    ? 'the chain has it'
    : `THE CHAIN HAS ${formatGap(BigInt(gapRaw), coin).toUpperCase()} THAN THE BOOKS`

const formatLine = ({ _id, at, coin, from, to, amount_raw: raw }: JournalLine): string =>
  `${formatTime(at)}  ${formatAmount(BigInt(raw), coin)}  ${from} -> ${to}  ${_id}`
