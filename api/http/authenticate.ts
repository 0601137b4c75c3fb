import type { Caller } from '../../shared/agents/agent-store.ts'
import { isStoredToken, tokenKey } from '../../shared/agents/token.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/platform/errors.ts'
import { TOKEN_CACHE_ENTRIES, TOKEN_CACHE_MS, TOKEN_PATTERN } from '../../shared/platform/limits.ts'
import { isPassActive } from '../../shared/passes/pass.ts'
import { passRequired } from '../../shared/passes/payment-asked.ts'
import type { Access } from './route.ts'

export interface Authenticator {
  /**
   * Finds the calling agent by the token that it sent.
   *
   * @param authorization the header of that name
   * @param options.servesBanned true if a banned agent isn't refused
   * @param options.recalled what recall() returned for this header: the token isn't hashed again for it
   * @returns undefined on an open route, or if the access is `optional` and no token was sent
   * @throws Refusal `missing_token`, `invalid_token`, `banned`, `pass_required`
   */
  authenticate(
    access: Access,
    authorization: string | undefined,
    options?: { servesBanned?: boolean | undefined; recalled?: Caller | undefined },
  ): Promise<Caller | undefined>
  /**
   * Returns the agent whose token this was when it was last looked up here, however long ago; undefined if it
   * is not remembered. It authenticates nobody: use it only for taking turns.
   */
  recall(authorization: string | undefined): Caller | undefined
  /** Drops a token from this process's cache. @param key its look-up key */
  forget(key: string): void
}

interface Remembered {
  caller: Caller
  untilMs: number
}

/**
 * Creates the authenticator of this process. It looks tokens up, and caches good ones for TOKEN_CACHE_MS: so
 * a ban or a rotation in another process takes that long to have effect here, except on `fresh` routes, which
 * don't use the cache. Bad tokens aren't cached, and neither is the lack of a pass, so that a pass counts as
 * soon as it is credited.
 */
export function createAuthenticator(ctx: Context): Authenticator {
  /** By the token's look-up key. */
  const remembered = new Map<string, Remembered>()
  let timesForgotten = 0

  /**
   * Finds the agent of a token, in the cache if `mayRemember`, else in the database, and caches it.
   *
   * @param recalled an agent whose token this is known to be
   * @throws Refusal `invalid_token`; `banned` unless `servesBanned`
   */
  async function lookUp(token: string, mayRemember: boolean, servesBanned?: boolean, recalled?: Caller) {
    const key = tokenKey(token)
    // Monotonic, so that a clock set back can't keep a token in the cache longer.
    const nowMs = performance.now()
    const known = mayRemember ? remembered.get(key) : undefined
    const isIts = (caller: Caller) => caller === recalled || isStoredToken(token, caller)
    if (known !== undefined && known.untilMs > nowMs && isIts(known.caller)) return known.caller
    const timesBefore = timesForgotten
    const caller = await ctx.agents.findCaller(key)
    if (caller === undefined || !isStoredToken(token, caller)) {
      remembered.delete(key)
      throw new Refusal(
        'invalid_token',
        'The token is unknown; send the one that registration or the last rotation gave.',
      )
    }
    if (caller.banned_at !== undefined) {
      remembered.delete(key)
      if (servesBanned) return caller
      throw new Refusal('banned', 'This agent is banned; its data stays, its access does not.')
    }
    if (remembered.size >= TOKEN_CACHE_ENTRIES) remembered.clear()
    // What the look-up saw is no older than nowMs; a token forgotten during the look-up isn't cached.
    if (timesBefore === timesForgotten) remembered.set(key, { caller, untilMs: nowMs + TOKEN_CACHE_MS })
    return caller
  }

  return {
    async authenticate(access, authorization, { servesBanned, recalled } = {}) {
      if (access === 'open') return undefined
      if (authorization === undefined) {
        if (access === 'optional') return undefined
        throw new Refusal(
          'missing_token',
          'This route needs the header "Authorization: Bearer sk_…" with the agent\'s token.',
        )
      }
      const token = readToken(authorization)
      if (token === undefined) {
        throw new Refusal(
          'invalid_token',
          'The header is not of the form "Authorization: Bearer sk_" and 48 lower-case hex characters.',
        )
      }
      const caller = await lookUp(token, access !== 'fresh', servesBanned, recalled)
      if (access !== 'pass' || isPassActive(caller.pass_until_ms, ctx.database.now())) return caller
      const anew = await lookUp(token, false)
      if (isPassActive(anew.pass_until_ms, ctx.database.now())) return anew
      throw passRequired()
    },
    recall(authorization) {
      const token = authorization === undefined ? undefined : readToken(authorization)
      if (token === undefined) return undefined
      const caller = remembered.get(tokenKey(token))?.caller
      return caller !== undefined && isStoredToken(token, caller) ? caller : undefined
    },
    forget(key) {
      timesForgotten++
      remembered.delete(key)
    },
  }
}

/** Returns the token of an `Authorization` header; undefined if the header isn't of the right form. */
function readToken(authorization: string): string | undefined {
  const token = /^bearer +(\S+)$/i.exec(authorization.trim())?.[1]
  return token !== undefined && TOKEN_PATTERN.test(token) ? token : undefined
}
