import { formatTime, indent } from '../../client/command/format.ts'
import { textOption } from '../../client/command/verb.ts'
import type { Context } from '../../shared/context.ts'
import { omitUndefined } from '../../shared/platform/omit-undefined.ts'
import { formatGap } from '../../shared/operation/finding.ts'
import { COINS, type Coin } from '../../shared/money/coin.ts'
import type { CoinRecord } from '../../shared/money/coin-store.ts'
import type { LineFilter } from '../../shared/money/journal-store.ts'
import { heldRaw, type Account, type AccountKind, type JournalLine } from '../../shared/money/journal.ts'
import { formatAmountOf, formatSigned } from './output.ts'
import {
  defineOperatorVerb,
  limitOf,
  limitOption,
  parseCoin,
  type OperatorVerb,
  type VerbOutput,
} from './verb.ts'

export const booksVerbs: readonly OperatorVerb[] = [
  defineOperatorVerb({
    name: 'books',
    words: [],
    options: {
      agent: textOption('AGENT_ID', 'the money of one agent'),
      order: textOption('ORDER_ID', 'of one market order'),
      coin: textOption('COIN', `${COINS.join(' or ')} alone`),
      ...limitOption('moves per coin at most'),
    },
    help: 'What each account of the books has and the moves that made it so, the newest first; in all, or of an agent or order',
    changes: false,
    run({ ctx, options: { agent, order, coin, ...options } }) {
      const coins = coin === undefined ? COINS : [parseCoin('--coin', coin)]
      return showBooks(ctx, coins, omitUndefined({ agent_id: agent, order_id: order }), limitOf(options))
    },
  }),
]

/**
 * Reads and formats the books of some coins: whole with an empty `filter`, else the balances and moves of its
 * agent or order.
 *
 * @param limit of moves, per coin
 */
async function showBooks(
  ctx: Context,
  coins: readonly Coin[],
  filter: LineFilter,
  limit: number,
): Promise<VerbOutput> {
  const isWhole = Object.keys(filter).length === 0
  const books = await Promise.all(coins.map((coin) => readBook(ctx, coin, filter, limit + 1)))
  return {
    answer: { ok: true, books: books.map((book) => viewBook(book, limit, isWhole)) },
    text: books.map((book) => formatBook(book, limit, isWhole)).join('\n\n'),
  }
}

/**
 * Reads a coin's book: whole with an empty `filter`, else the filter's balances and moves.
 *
 * @param limit of moves
 */
async function readBook(ctx: Context, coin: Coin, filter: LineFilter, limit: number): Promise<Book> {
  const isWhole = Object.keys(filter).length === 0
  const [balances, lines, record, openings] = await Promise.all([
    isWhole ? ctx.journal.totals(coin) : ctx.journal.balances(coin, filter),
    ctx.journal.list({ ...filter, coin }, limit),
    isWhole ? ctx.coins.findCoin(coin) : undefined,
    isWhole ? ctx.journal.listOpenings(coin) : [],
  ])
  return { coin, balances, lines, record, openings }
}

/** A book as `--json` shows it, with at most `limit` moves. @param isWhole false: of one agent or order */
const viewBook = ({ coin, balances, lines, record, openings }: Book, limit: number, isWhole: boolean) => ({
  currency: coin,
  balances: [...balances].map(([account, raw]) => ({
    account,
    balance: formatSigned(raw, coin),
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
    amount: formatAmountOf({ amount_raw, coin }),
    amount_raw,
  })),
  truncated: lines.length > limit,
})

interface Book {
  coin: Coin
  balances: ReadonlyMap<Account | AccountKind, bigint>
  /** The newest moves, one more than is shown if there are more. */
  lines: readonly JournalLine[]
  /** How the books compared with the chain; undefined for a part of the books. */
  record: CoinRecord | undefined
  /** A line for each wallet that held more or less than the books when they began with it. */
  openings: readonly JournalLine[]
}

/** What a wallet held beyond the books when they began with it; below 0 if it held less. */
const openedRaw = ({ to, amount_raw: raw }: JournalLine): bigint =>
  to === 'operator' ? BigInt(raw) : -BigInt(raw)

/** A book as text, with at most `limit` moves. */
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
    isWhole
      ? `${coin}: ${formatSigned(heldRaw(balances), coin)} is held by the books; ${compared}`
      : `${coin}:`,
    indent(
      [...balances]
        .sort()
        .map(([account, raw]) => `${account}  ${formatSigned(raw, coin)}`)
        .join('\n'),
    ),
    ...openings.map(
      (line) =>
        `The books began with a wallet that held ${formatSigned(openedRaw(line), coin)} beyond them, which is the operator's: ${line._id}`,
    ),
    indent(lines.slice(0, limit).map(formatLine).join('\n')),
    ...(lines.length > limit ? ['There are older moves; --limit shows more.'] : []),
  ].join('\n')
}

/**
 * Says how the chain compares with the books.
 *
 * @param gapRaw what the chain has beyond the books, smallest unit
 */
export const describeGap = (gapRaw: string, coin: Coin): string =>
  gapRaw === '0'
    ? 'the chain has it'
    : `THE CHAIN HAS ${formatGap(BigInt(gapRaw), coin).toUpperCase()} THAN THE BOOKS`

const formatLine = (line: JournalLine): string =>
  `${formatTime(line.at)}  ${formatAmountOf(line)}  ${line.from} -> ${line.to}  ${line._id}`
