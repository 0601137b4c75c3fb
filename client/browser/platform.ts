/** What stands in for ../platform.ts in a browser. */
export { Buffer } from './buffer.ts'
export * from './cores.ts'
export * from './crypto.ts'
export * from './private-file.ts'
