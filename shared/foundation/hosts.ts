import net from 'node:net'

/**
 * Whether a request's `Host` names one of ours. An address is always one, and so is localhost: a page that
 * makes a browser ask under a name of its own (DNS rebinding) can't make it send these.
 */
export function isHostAllowed(host: string | undefined, allowed: readonly string[]): boolean {
  const name = (host ?? '').replace(/:\d+$/, '').toLowerCase()
  return name === 'localhost' || net.isIP(name.replace(/^\[|\]$/g, '')) !== 0 || allowed.includes(name)
}
