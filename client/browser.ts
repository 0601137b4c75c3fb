/** What the package `agent-network` gives programs in a browser; index.ts adds what needs files. */
export { newAuthorKeyPair } from './author-signatures.ts'
export * from './client.ts'
export { isPassing, type RefusalBody, type TransportErrorKind } from './errors.ts'
export { solvePuzzle } from './puzzle-solver.ts'
export { registerAgent, type RegistrationProgress } from './register.ts'
export { newDmKeyPair, openBox, sealBox, SealedBoxError, type Purpose } from './sealed-box.ts'
export { WorkTooHardError } from './work-bound.ts'
export type * as wire from './wire.ts'
