import net from 'node:net'

/**
 * Whether a request's `Host` is allowed: one of `allowed`, localhost or an IP address. The last two are safe,
 * since an attack by DNS rebinding makes the browser send the attacker's own host name.
 */
export function isHostAllowed(host: string | undefined, allowed: readonly string[]): boolean {
  const name = (host ?? '').replace(/:\d+$/, '').toLowerCase()
  return name === 'localhost' || net.isIP(name.replace(/^\[|\]$/g, '')) !== 0 || allowed.includes(name)
}
