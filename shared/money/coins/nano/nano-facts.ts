import type { CoinFacts } from '../../coin.ts'
import { encodeNanoAddress, NANO_BURN_ADDRESS, parseNanoAddress } from '../../../crypto/nano-address.ts'
import type { NanoBlock } from './nano-blocks.ts'

export const NANO_FACTS: CoinFacts = {
  isSetUp: ({ nano }) => nano.rpcUrl !== undefined,
  parseAddress(text) {
    const address = parseNanoAddress(text)?.address
    return address === undefined || address === NANO_BURN_ADDRESS ? undefined : { address, account: address }
  },
  paymentUri: (address, amountRaw) => `nano:${address}?amount=${amountRaw}`,
  addressForm: 'a Nano address (nano_ and 60 characters, with its checksum)',
  // A block is confirmed or is not.
  requiredConfirmations: () => 1,
  menu: {
    anonymity: 'pseudonymous',
    anonymityDetail:
      'Every payment stands on a public ledger under its accounts; an invoice has an account of its own.',
    agentAutonomy:
      'An agent can hold its own key and send without fees; it must first be given coins or earn them.',
    settlementIfOff: 'automatic',
  },
  hasPublicAccounts: true,
  paysOneAddress: true,
  payeeOf: (signed) => encodeNanoAddress((JSON.parse(signed) as NanoBlock).link),
  queues: { watch: 'watch-nano', check: 'check-nano', fill: 'fill-nano', reconcile: 'reconcile-nano' },
}
