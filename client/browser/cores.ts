/** A page mines on the caller's thread. */
export const countCores = (): number => 1
