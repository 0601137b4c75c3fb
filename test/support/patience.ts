/**
 * How long a test waits for what must come in the end, in ms: longer than a busy machine has ever kept one
 * waiting. A limit that a test asserts stands in that test.
 */
export const PATIENCE_MS = 60_000
