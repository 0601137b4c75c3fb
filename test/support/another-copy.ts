import { registerHooks } from 'node:module'

const PARAMETER = 'copy'
const OURS = new URL('../../', import.meta.url).href
let copies = 0

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const copy = context.parentURL?.startsWith(OURS)
      ? new URL(context.parentURL).searchParams.get(PARAMETER)
      : null
    if (copy === null || !found.url.startsWith(OURS) || found.url.includes('/node_modules/')) return found
    const url = new URL(found.url)
    url.searchParams.set(PARAMETER, copy)
    return { ...found, url: url.href }
  },
})

/**
 * Begins another copy of this project's modules, with a memory of its own as another process has it. The
 * function that is returned imports one of them, by its path from the root of the project; what that imports
 * is of the same copy, packages aside.
 */
export function anotherCopy(): <T>(module: string) => Promise<T> {
  const copy = String(++copies)
  return async <T>(module: string) => {
    const url = new URL(module, OURS)
    url.searchParams.set(PARAMETER, copy)
    return (await import(url.href)) as T
  }
}
