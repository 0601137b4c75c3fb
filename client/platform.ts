/**
 * What the client needs of Node and a browser has not, or has otherwise; browser/platform.ts stands in. The
 * package has both files, and all others in it import `#platform`.
 */
export { Buffer } from 'node:buffer'
export * from 'node:crypto'
export * from './cores.ts'
export * from './private-file.ts'
