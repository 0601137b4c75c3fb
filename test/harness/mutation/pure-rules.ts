import fs from 'node:fs'
import path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '../../..')

/** The folders whose rules decide about money, passes, work, orders and the ledger. */
const FOLDERS = ['shared/money', 'shared/market', 'shared/passes', 'shared/ledger']
const IMPORT = /^import (?!type )[^'"]*?from '([^']+)'/gm
const WAITS = /\b(?:async|await|Promise|WebSocket)\b/
/** Modules of Node, and packages, that reach outside the process. */
const OUTSIDE = /^(?:node:(?!crypto$)|ioredis$|bullmq$)/
/** What starts a server or a process. */
const SERVERS = /^node:(?:http|net|child_process)$/

const read = (file: string): string => fs.readFileSync(path.join(ROOT, file), 'utf8')
const filesBelow = (folder: string): string[] => fs.globSync(`${folder}/**/*.ts`, { cwd: ROOT }).toSorted()

/** What a module imports at run time: files as paths from the root, packages as they are named. */
const importsOf = (file: string): string[] =>
  [...read(file).matchAll(IMPORT)].map(([, specifier = '']) =>
    specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : specifier,
  )

/** What a module imports at run time, and what that imports, and so on. */
function importsInAll(file: string, found = new Set<string>()): Set<string> {
  for (const target of importsOf(file).filter((one) => !found.has(one))) {
    found.add(target)
    if (target.endsWith('.ts')) importsInAll(target, found)
  }
  return found
}

/** Whether a module imports another at run time, itself or by what it imports. */
export const dependsOn = (file: string, target: string): boolean => importsInAll(file).has(target)

/** The modules that only compute: they wait for nothing, and nothing that they import reaches outside. */
export const pureRules = (): string[] =>
  FOLDERS.flatMap(filesBelow).filter(
    (file) =>
      !WAITS.test(read(file)) &&
      !importsOf(file).includes('mongoose') &&
      [...importsInAll(file)].every((target) => !OUTSIDE.test(target)),
  )

/** The unit tests that import one of these modules themselves, and start neither a server nor a process. */
export const testsOf = (files: readonly string[]): string[] =>
  filesBelow('test/unit').filter(
    (file) =>
      file.endsWith('.test.ts') &&
      importsOf(file).some((target) => files.includes(target)) &&
      ![...importsInAll(file)].some((target) => SERVERS.test(target)),
  )
