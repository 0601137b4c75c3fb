import { BlockList, isIP } from 'node:net'

/*
 * Which addresses are anybody's on the internet. By the IANA registries of special-purpose addresses (RFC 6890) and
 * what clouds keep for themselves. Of IPv6 only what is given out for use (2000::/3) can be public, and of that no
 * range that carries an IPv4 address or a tunnel: what stands behind those is not the address that was checked.
 */

const NOT_PUBLIC_V4 = [
  '0.0.0.0/8', // this host and network
  '10.0.0.0/8', // private
  '100.64.0.0/10', // between a provider and its customers
  '127.0.0.0/8', // loopback
  '169.254.0.0/16', // link-local, clouds' metadata
  '168.63.129.16/32', // a cloud's agent, though the range is public
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocols
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // AMT
  '192.88.99.0/24', // relays of 6to4
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // measuring
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/3', // multicast, reserved, broadcast
] as const

const GIVEN_OUT_V6 = '2000::/3'
const NOT_PUBLIC_V6 = [
  '2001::/23', // protocols, Teredo among them
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
] as const

const rangesOf = (family: 'ipv4' | 'ipv6', ranges: readonly string[]): BlockList => {
  const list = new BlockList()
  for (const range of ranges) {
    const [start = '', bits] = range.split('/')
    list.addSubnet(start, Number(bits), family)
  }
  return list
}

const notPublicV4 = rangesOf('ipv4', NOT_PUBLIC_V4)
const givenOutV6 = rangesOf('ipv6', [GIVEN_OUT_V6])
const notPublicV6 = rangesOf('ipv6', NOT_PUBLIC_V6)

/** Whether an IP address, in a form that node:net takes, is a public one; false for anything else. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !notPublicV4.check(address, 'ipv4')
    case 6:
      // One with a zone, such as fe80::1%eth0, is only for its own network.
      return (
        !address.includes('%') && givenOutV6.check(address, 'ipv6') && !notPublicV6.check(address, 'ipv6')
      )
    default:
      return false
  }
}
