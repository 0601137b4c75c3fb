import type { PlantedBug } from './bugs.ts'

const MARKET = 'shared/market/'
const PAYMENTS = 'shared/payments/'
const NANO = 'shared/payments/nano/'
const MONERO = 'shared/payments/monero/'

const WRITE_INDEX = "await writeDurably(source.indexFile, textWithSum(next), 'index', watch)\n"
const MAKE_RECORDS = `  const added = made.map(({ index, address }, place): AddressRecord => {
    return { _id: \`\${coin}:\${index}\`, coin, index, address, state: 'free', holder: holders[place] ?? '' }
  })
`
const STORE_ADDRESSES = `  await performStep(watch, 'addresses', () =>
    ctx.database.transaction(async (session) => {
      await ctx.coins.addAddresses(added, session)
      await ctx.coins.notePool(coin, at, session)
    }),
  )
`

const WALK = '  for await (const payout of ctx.payouts.walkSendable(coin, isAsked)) walked.push(payout)\n'
const READ_UNSHOWN = '  const unshown = new Set(await ctx.invoices.listUnshownOrders(coin))\n'

export const MONEY_BUGS: readonly PlantedBug[] = [
  // Orders
  {
    name: 'fee-rounded-up',
    mistake: 'the fee is rounded up, at the cost of the seller',
    file: `${MARKET}order-states.ts`,
    text: '(amountRaw * BigInt(MARKET_FEE_PERCENT)) / 100n',
    instead: '(amountRaw * BigInt(MARKET_FEE_PERCENT) + 99n) / 100n',
    tests: ['unit/order-states'],
  },
  {
    name: 'deadline-a-second-late',
    mistake: 'in the second of a deadline both of its steps can be taken',
    file: `${MARKET}order-states.ts`,
    text: 'return nowSeconds < time ?',
    instead: 'return nowSeconds <= time ?',
    tests: ['unit/order-states'],
  },
  {
    name: 'paid-and-refunded',
    mistake: 'an order that was released is refunded, and its seller is still owed',
    file: `${MARKET}order-updates.ts`,
    text: '  for (const payout of open) await withdrawPayout(ctx, payout, session)\n',
    instead: '  void withdrawPayout\n',
    tests: ['workers/market'],
  },
  {
    name: 'order-version-forgotten',
    mistake: 'of two changes of an order at once one is written over what it had not read',
    file: `${MARKET}order-store.ts`,
    text: 'const filter = { _id: before._id, status: before.status, version: before.version }',
    instead: 'const filter = { _id: before._id, status: before.status }',
    tests: ['workers/market'],
  },
  {
    name: 'order-acknowledged-before-the-commit',
    mistake: 'an order is acknowledged before it is stored',
    file: `${MARKET}order-placing.ts`,
    text: '      await ctx.database.transaction(async (session) => {',
    instead: '      void ctx.database.transaction(async (session) => {',
    tests: ['api/market'],
  },
  {
    name: 'deadline-without-a-job',
    mistake: 'a delivered order is released only when the sweep finds it overdue',
    file: `${MARKET}order-service.ts`,
    text: '  await enqueueDeadline(ctx, order)\n  return order\n',
    instead: '  void enqueueDeadline\n  return order\n',
    tests: ['workers/market'],
  },
  {
    name: 'money-after-the-end-kept',
    mistake: 'what is paid for an expired order is owed to nobody',
    file: `${MARKET}order-payments.ts`,
    text: "} else if (order.status !== 'disputed') {",
    instead: "} else if (order.status === 'paid') {",
    tests: ['api/market'],
  },
  {
    name: 'lost-money-refunded',
    mistake: 'a refund owes the buyer a payment that the chain took back',
    file: `${MARKET}dispute-service.ts`,
    text: 'larger(receivedRaw - lostRaw, payouts.buyer.sentRaw)',
    instead: 'larger(receivedRaw, payouts.buyer.sentRaw)',
    tests: ['workers/market'],
  },
  // Prices and rates
  {
    name: 'price-rounded-down',
    mistake: 'a price in a coin is less than its dollars',
    file: `${PAYMENTS}coin.ts`,
    text: '((dividend + rate - 1n) / rate)',
    instead: '(dividend / rate)',
    tests: ['unit/coin'],
  },
  {
    name: 'dust-counted-as-unpaid',
    mistake: 'an invoice that lacks a raw is never paid: so little would not be counted',
    file: `${PAYMENTS}invoice.ts`,
    text: 'return missing < dustThreshold(coin) ? 0n : missing',
    instead: 'return missing <= 0n ? 0n : missing',
    tests: ['unit/invoice', 'api/hostile-money'],
  },
  {
    name: 'rate-from-one-source',
    mistake: 'one source sets the rate',
    file: `${PAYMENTS}rate-agreement.ts`,
    text: 'LEAST_SOURCES = 2',
    instead: 'LEAST_SOURCES = 1',
    tests: ['workers/rates'],
  },
  // Payments
  {
    name: 'address-given-twice',
    mistake: 'an address is given out again after an older database was restored',
    file: `${PAYMENTS}coin-store.ts`,
    text: 'if (given.indexes.has(address.index) || address.index <= given.highest - REMEMBERED) continue',
    instead: 'if (address.index <= given.highest - REMEMBERED) continue',
    tests: ['workers/address-restores'],
  },
  {
    name: 'index-written-after-the-addresses',
    mistake: 'a worker dies before the file beside the seed names addresses that can be given out',
    file: `${PAYMENTS}address-pool.ts`,
    text: `  ${WRITE_INDEX}${MAKE_RECORDS}${STORE_ADDRESSES}`,
    instead: `${MAKE_RECORDS}${STORE_ADDRESSES}  ${WRITE_INDEX}`,
    tests: ['workers/address-restores'],
  },
  {
    name: 'late-money-holds-the-price',
    mistake: 'one small late payment after another keeps an invoice and its price open',
    file: `${PAYMENTS}settlement.ts`,
    text: "state === 'seen' && !late",
    instead: "state === 'seen' && (!late || late)",
    tests: ['workers/settlement'],
  },
  {
    name: 'settled-payment-called-gone',
    mistake: 'a payment that is settled while a look misses it is gone, and its money with it',
    file: `${PAYMENTS}invoice-store.ts`,
    text: 'payments.change({ _id: paymentId, state: from }, { $set: { state: to }, ...WAITS_NO_MORE }, session),',
    instead: 'payments.change({ _id: paymentId }, { $set: { state: to }, ...WAITS_NO_MORE }, session),',
    tests: ['workers/settlement'],
  },
  {
    name: 'expired-by-a-round-before',
    mistake: 'an invoice whose time ends during a round expires, and nobody has looked since',
    file: `${PAYMENTS}coin-round.ts`,
    text: '  await expireInvoices(ctx, coin, startedAt)\n',
    instead: '  await expireInvoices(ctx, coin, nowSeconds(ctx))\n',
    tests: ['workers/settlement'],
  },
  {
    name: 'expired-though-paid',
    mistake: 'an invoice expires at whose address the first payment was seen a moment before',
    file: `${PAYMENTS}invoice-store.ts`,
    text: "const untouched = { lapsed: false, has_payments: none, order_id: none, carried_raw: '0' }",
    instead: "const untouched = { lapsed: false, order_id: none, carried_raw: '0' }",
    tests: ['workers/settlement'],
  },
  {
    name: 'unrecorded-look-put-off',
    mistake: 'late money that could not be recorded is looked for an hour later, or never again',
    file: `${NANO}nano-look.ts`,
    text: '      if (troubles.length === 0)\n        await ctx.invoices.postponeLook(',
    instead: '      await ctx.invoices.postponeLook(',
    tests: ['workers/nano-watch'],
  },
  {
    name: 'counted-unconfirmed',
    mistake: 'a send counts before the network has confirmed it',
    file: `${NANO}nano-look.ts`,
    text: 'confirmations: 0, isConfirmed: false',
    instead: 'confirmations: 0, isConfirmed: true',
    tests: ['workers/nano-watch'],
  },
  {
    name: 'confirmed-a-block-early',
    mistake: 'a payment counts with a confirmation too few',
    file: `${MONERO}monero-watch.ts`,
    text: 'const isDeep = confirmations >= MONERO_FACTS',
    instead: 'const isDeep = confirmations + 1 >= MONERO_FACTS',
    tests: ['workers/monero-flow'],
  },
  {
    name: 'word-of-the-operator-lost',
    mistake: 'what the operator recorded by hand is called gone because no look finds it',
    file: `${PAYMENTS}settlement.ts`,
    text: "  if (payment.by === 'operator' && payment.shown_at === undefined) return\n",
    instead: '',
    tests: ['workers/settlement'],
  },
  {
    name: 'half-the-confirmations',
    mistake: 'an order counts as paid with half of the confirmations that it needs',
    file: `${MONERO}monero-facts.ts`,
    text: 'orderId === undefined ? base : 2 * base',
    instead: 'orderId === undefined ? base : base',
    tests: ['api/market'],
  },
  // Payouts
  {
    name: 'own-address-paid',
    mistake: "an address of the venue's own is taken as a payout address",
    file: `${PAYMENTS}payout-address.ts`,
    text: '  if (await isOwnAddress(ctx, coin, address))\n',
    instead: "  if (address === '')\n",
    tests: ['api/hostile-money'],
  },
  {
    name: 'frozen-payout-sent',
    mistake: 'a payout is sent while its order is disputed',
    file: `${PAYMENTS}payout-store.ts`,
    text: "...(from === 'free' ? FREE : {})",
    instead: "...(from === 'free' ? { held_by: FREE.held_by, to_self: FREE.to_self } : {})",
    tests: ['workers/nano-send'],
  },
  {
    name: 'sent-before-it-is-shown',
    mistake:
      'a payout of money on the word of the operator alone is sent if it becomes owed while payouts are listed',
    file: `${PAYMENTS}due-payouts.ts`,
    text: `  const walked: PayoutRecord[] = []\n${WALK}  // Read after them: the payment behind a payout is on record no later than the payout is.\n${READ_UNSHOWN}`,
    instead: `  const walked: PayoutRecord[] = []\n${READ_UNSHOWN}${WALK}`,
    tests: ['workers/market'],
  },
  {
    name: 'split-out-of-order',
    mistake: 'a block to a payee of more than there is sends another sum than that of the payouts in it',
    file: `${PAYMENTS}due-payouts.ts`,
    text: 'if (sumRaw + BigInt(raw) > mostRaw) break',
    instead: 'if (sumRaw + BigInt(raw) > mostRaw) continue',
    tests: ['unit/payout'],
  },
  {
    name: 'refused-transfer-signed-anew',
    mistake:
      'what is refused for long is owed again and paid by another block, while the first one may yet be taken',
    file: `${PAYMENTS}payout-service.ts`,
    text: "moveTransfers(ctx, [transfer], ['signed', 'sent'], 'held',",
    instead: "moveTransfers(ctx, [transfer], ['signed', 'sent'], 'replaced',",
    tests: ['workers/nano-recovery'],
  },
  {
    name: 'two-blocks-for-one-place',
    mistake: 'two processes sign different blocks for the same place in the chain of an account',
    file: `${PAYMENTS}payout-store.ts`,
    text: 'only({ account_index: some }, undefined, true)',
    instead: 'only({ account_index: some })',
    tests: ['workers/market'],
  },
  {
    name: 'replaced-sweep-called-done',
    mistake: 'what a sweep that was replaced had sent is called swept, and stays at its account',
    file: `${NANO}nano-account.ts`,
    text: '    await ctx.invoices.setSwept(rival.payment_ids, undefined)\n',
    instead: '',
    tests: ['workers/nano-recovery'],
  },
  {
    name: 'given-way-to-the-unconfirmed',
    mistake: 'a receive is given up for another one of its money that the network may yet drop',
    file: `${NANO}nano-account.ts`,
    text: 'if (found?.confirmed !== true || found.account !== account.address',
    instead: 'if (found === undefined || found.account !== account.address',
    tests: ['workers/nano-recovery'],
  },
  {
    name: 'taken-back-unconfirmed',
    mistake: 'what is owed counts as paid by a replaced block that is back and that the network may yet drop',
    file: `${NANO}nano-account.ts`,
    text: '      if (record !== undefined) due.push(record)\n      continue\n',
    instead:
      "      if (record !== undefined) due.push(record)\n      if (record?.state !== 'replaced') continue\n",
    tests: ['workers/nano-recovery'],
  },
  {
    name: 'held-never',
    mistake: 'the operator is never told of a transaction that is refused for days',
    file: `${PAYMENTS}payout.ts`,
    text: '{ at: refused?.at ?? at, count,',
    instead: '{ at, count,',
    tests: ['unit/payout'],
  },
  // The books
  {
    name: 'loss-booked-as-income',
    mistake: 'what the chain took back is booked as come in once more',
    file: `${PAYMENTS}journal.ts`,
    text: "step === 'undone' || step.startsWith('lost')",
    instead: "step === 'undone' || step.startsWith('restored')",
    tests: ['unit/journal'],
  },
  {
    name: 'withdrawal-booked-backwards',
    mistake: 'a payout that is withdrawn is booked as owed once more',
    file: `${PAYMENTS}journal.ts`,
    text: 'withdrawn: [owed, order],',
    instead: 'withdrawn: [order, owed],',
    tests: ['workers/market'],
  },
  {
    name: 'deficit-booked-away',
    mistake: 'a wallet that holds less than the books say is made right by a line of the books',
    file: `${PAYMENTS}books.ts`,
    text: 'known === undefined && (gapRaw < 0n || height === undefined)',
    instead: 'known === undefined && gapRaw > 0n && height === undefined',
    tests: ['workers/books'],
  },
  {
    name: 'came-in-twice',
    mistake: 'money is booked twice if the operator records it while a worker puts it on record',
    file: `${PAYMENTS}settlement.ts`,
    text: '  await ctx.coins.claim(coin, [tx], session)\n',
    instead: '',
    tests: ['workers/books'],
  },
  // Days
  {
    name: 'used-days-taken-back',
    mistake: 'days that are used up can be taken back, and those that are not cannot',
    file: 'shared/passes/pass-service.ts',
    text: 'if (nowMs - untilMs >= DAY_MS)',
    instead: 'if (nowMs - untilMs < DAY_MS)',
    tests: ['api/hostile-money'],
  },
]
