import { formatAmount, type CoinFacts } from '../../coin.ts'
import { parseMoneroAddress } from './monero-address.ts'

export const MONERO_FACTS: CoinFacts = {
  isSetUp: ({ monero }) => monero.walletRpcUrl !== undefined,
  parseAddress(text) {
    const { network, keys: account } = parseMoneroAddress(text) ?? {}
    return network === 'mainnet' && account !== undefined ? { address: text, account } : undefined
  },
  // In coins, as Monero's wiki has it under "URI formatting".
  paymentUri: (address, amountRaw) => `monero:${address}?tx_amount=${formatAmount(amountRaw, 'xmr')}`,
  addressForm: 'a Monero address of the main network (standard, subaddress or integrated, with its checksum)',
  // A market order's payment cannot be taken back from who delivers: it waits twice as long.
  requiredConfirmations: ({ order_id: orderId }, base) => (orderId === undefined ? base : 2 * base),
  menu: {
    anonymity: 'untraceable',
    anonymityDetail:
      'Sender, receiver and amount are hidden on the chain; an invoice has a subaddress of its own.',
    agentAutonomy: 'An agent can hold its own wallet; it must first be given coins or earn them.',
    settlementIfOff: 'manual',
  },
  hasPublicAccounts: false,
  paysOneAddress: false,
  queues: {
    watch: 'watch-monero',
    check: 'check-monero',
    fill: 'fill-monero',
    reconcile: 'reconcile-monero',
  },
}
