import type { Caller } from '../../shared/agents/agent-store.ts'
import { isToken, tokenKey } from '../../shared/agents/token.ts'
import type { Context } from '../../shared/context.ts'
import { Refusal } from '../../shared/foundation/errors.ts'
import {
  API_BASE,
  PRICE_USD_CENTS_PER_DAY,
  TOKEN_CACHE_ENTRIES,
  TOKEN_CACHE_MS,
  TOKEN_PATTERN,
} from '../../shared/foundation/limits.ts'
import { isPassActive, usdFromCents } from '../../shared/passes/pass.ts'
import type { Access } from './route.ts'

/** Names the call that gets one, and where prices stand: what a day costs differs by agent, coin and time. */
const PASS_REQUIRED = `This route needs an active pass. POST ${API_BASE}/invoice {"currency": "pow", "days": 1} buys a day with work, {"currency": "xno"} or {"currency": "xmr"} with a coin; a day costs ${usdFromCents(PRICE_USD_CENTS_PER_DAY).toFixed(2)} USD unless GET ${API_BASE}/currencies says less.`

export interface Authenticator {
  /**
   * The agent that calls, as far as the route's access asks for one.
   *
   * @throws Refusal `missing_token`, `invalid_token`, `banned`, `pass_required`
   */
  authenticate(
    access: Access,
    authorization: string | undefined,
    takesBanned?: boolean,
  ): Promise<Caller | undefined>
  /**
   * The agent whose token this was when it was last looked up here: a hint of whose turn a request takes, and
   * no more.
   */
  guess(access: Access, authorization: string | undefined): string | undefined
  /** Forgets a token in this process at once. */
  forget(key: string): void
}

interface Remembered {
  caller: Caller
  untilMs: number
}

/**
 * Looks tokens up, remembering good ones for at most a second: a ban or a rotation in another process takes
 * that long to be felt here, and `fresh` routes never use what is remembered. Bad tokens are not remembered,
 * and neither is the lack of a pass, so that a pass just credited opens the door.
 */
export function createAuthenticator(ctx: Context): Authenticator {
  const remembered = new Map<string, Remembered>()
  let timesForgotten = 0

  async function lookUp(token: string, mayRemember: boolean, takesBanned = false): Promise<Caller> {
    const key = tokenKey(token)
    // Monotonic, so that a clock set back cannot lengthen a second.
    const nowMs = performance.now()
    const known = mayRemember ? remembered.get(key) : undefined
    if (known !== undefined && known.untilMs > nowMs && isToken(token, known.caller)) return known.caller
    const timesBefore = timesForgotten
    const caller = await ctx.agents.findCaller(key)
    if (caller === undefined || !isToken(token, caller))
      throw new Refusal(
        'invalid_token',
        'The token is unknown; send the one that registration or the last rotation gave.',
      )
    if (caller.banned_at !== undefined) {
      remembered.delete(key)
      if (takesBanned) return caller
      throw new Refusal('banned', 'This agent is banned; its data stays, its access does not.')
    }
    if (remembered.size >= TOKEN_CACHE_ENTRIES) remembered.clear()
    // The look-up began at nowMs, so what it saw is no older than that; it may have seen a token forgotten
    // since.
    if (timesBefore === timesForgotten) remembered.set(key, { caller, untilMs: nowMs + TOKEN_CACHE_MS })
    return caller
  }

  return {
    async authenticate(access, authorization, takesBanned) {
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
      const caller = await lookUp(token, access !== 'fresh', takesBanned)
      if (access !== 'pass' || isPassActive(caller.pass_until_ms, ctx.databaseNow())) return caller
      const anew = await lookUp(token, false)
      if (isPassActive(anew.pass_until_ms, ctx.databaseNow())) return anew
      throw new Refusal('pass_required', PASS_REQUIRED)
    },
    guess(access, authorization) {
      const token = access === 'open' || authorization === undefined ? undefined : readToken(authorization)
      const known = token === undefined ? undefined : remembered.get(tokenKey(token))
      return known !== undefined && token !== undefined && isToken(token, known.caller)
        ? known.caller._id
        : undefined
    },
    forget(key) {
      timesForgotten++
      remembered.delete(key)
    },
  }
}

/** The token of a header of the right form. */
function readToken(authorization: string): string | undefined {
  const token = /^bearer +(\S+)$/i.exec(authorization.trim())?.[1]
  return token !== undefined && TOKEN_PATTERN.test(token) ? token : undefined
}
