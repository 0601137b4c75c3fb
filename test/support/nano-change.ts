import {
  ZERO_HASH,
  type NanoAccountState,
  type UnsignedNanoBlock,
} from '../../shared/money/coins/nano/nano-blocks.ts'

/** A block that names another representative and moves nothing, which the service never makes. */
export function buildChange(
  { account, frontier, balanceRaw }: NanoAccountState,
  representative: string,
): UnsignedNanoBlock {
  return {
    type: 'state',
    account,
    previous: frontier ?? ZERO_HASH,
    representative,
    balance: String(balanceRaw),
    link: ZERO_HASH,
  }
}
