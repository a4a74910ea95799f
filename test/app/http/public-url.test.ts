import type { IncomingHttpHeaders } from 'node:http'
import { expect } from 'chai'
import { PublicUrl, publicUrlSchema, trustedProxiesSchema } from 'svc-sdk/internal/http/public-url'

const proxy = '10.0.0.1'

/** The public URL of a gateway that trusts these proxies. */
function reached(
  headers: IncomingHttpHeaders,
  { from = proxy, trusted = ['10.0.0.0/8'], encrypted = false } = {},
): string | undefined {
  const socket = { remoteAddress: from, ...(encrypted ? { encrypted: true } : {}) }
  const url = new PublicUrl({ trustedProxies: trusted })
  return url.of({ socket, headers: { host: 'inner:8787', ...headers } })
}

const refused = (schema: { safeParse(value: unknown): { success: boolean } }, value: unknown): boolean =>
  !schema.safeParse(value).success

describe('the URL under which clients reach the gateway', () => {
  it('is the one in the policy, whatever a request contains', () => {
    const url = new PublicUrl({ publicUrl: 'https://GW.example:443/tools/', trustedProxies: ['0.0.0.0/0'] })
    const headers = { host: 'evil.example', 'x-forwarded-host': 'evil.example' }
    expect(url.of({ headers, socket: { remoteAddress: proxy } })).to.equal('https://gw.example/tools')
  })

  it('is taken from the connection and the Host header if the policy has none', () => {
    expect(reached({})).to.equal('http://inner:8787')
    expect(reached({ host: 'GW.example:443' }, { encrypted: true })).to.equal('https://gw.example')
    expect(reached({ host: '[::1]:8787' })).to.equal('http://[::1]:8787')
  })

  it('is unknown if the Host header is not a host', () => {
    const hosts = [
      '',
      'a b',
      'user@host',
      'host/path',
      'host?q',
      'host#f',
      'a, b',
      'host"',
      'host:port',
      'a\\b',
    ]
    for (const host of hosts) expect(reached({ host }), host).to.equal(undefined)
  })

  describe('behind a trusted proxy', () => {
    it('is taken from x-forwarded-proto and x-forwarded-host independently', () => {
      const host = 'gw.example'
      expect(reached({ 'x-forwarded-proto': 'https', 'x-forwarded-host': host })).to.equal(
        'https://gw.example',
      )
      expect(reached({ 'x-forwarded-proto': 'HTTPS' })).to.equal('https://inner:8787')
      expect(reached({ 'x-forwarded-host': 'gw.example:8443' })).to.equal('http://gw.example:8443')
    })

    it('is taken from the values that the proxy added, not from those that it received', () => {
      const headers = { 'x-forwarded-proto': 'http, https', 'x-forwarded-host': 'evil.example, gw.example' }
      expect(reached(headers)).to.equal('https://gw.example')
    })

    it('is taken from Forwarded (RFC 7239)', () => {
      const forwarded = 'for="[2001:db8::1]:4711";Proto=https;host="gw.example:8443";by=_edge'
      expect(reached({ forwarded })).to.equal('https://gw.example:8443')
    })

    it('is the one that the outermost trusted proxy received', () => {
      const forwarded =
        'for=10.0.0.9;host=evil.example, for=192.0.2.7;proto=https;host=gw.example, for=10.0.0.2;proto=http;host=inner'
      expect(reached({ forwarded })).to.equal('https://gw.example')
    })

    it('is unknown if Forwarded is malformed', () => {
      const values = [
        '',
        'host',
        'host=',
        'host=a b',
        'host="a',
        'host=a;host=b',
        'host=a;',
        'host=a,',
        ';',
        'a=b c=d',
      ]
      for (const forwarded of values) expect(reached({ forwarded }), forwarded).to.equal(undefined)
    })

    it('is unknown if Forwarded and x-forwarded-* contradict each other', () => {
      const forwarded = 'proto=https;host=evil.example'
      expect(reached({ forwarded, 'x-forwarded-host': 'gw.example' })).to.equal(undefined)
      expect(reached({ forwarded, 'x-forwarded-proto': 'http' })).to.equal(undefined)
      expect(reached({ forwarded: 'proto=https', 'x-forwarded-host': 'gw.example' })).to.equal(
        'https://gw.example',
      )
    })

    it('is unknown with another scheme, or without a valid host', () => {
      expect(reached({ 'x-forwarded-proto': 'javascript' })).to.equal(undefined)
      expect(reached({ 'x-forwarded-host': 'evil.example/path' })).to.equal(undefined)
      expect(reached({ forwarded: 'host="evil.example\\"x"' })).to.equal(undefined)
    })
  })

  it('is not taken from headers of untrusted clients', () => {
    const said = {
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'evil.example',
      forwarded: 'proto=https;host=evil.example',
    }
    expect(reached(said, { from: '192.0.2.1' })).to.equal('http://inner:8787')
    expect(reached(said, { trusted: [] })).to.equal('http://inner:8787')
  })

  it('is taken from proxies that are trusted by address or range, of both families, and IPv4 within IPv6', () => {
    const said = { 'x-forwarded-host': 'gw.example' }
    const known = (from: string, trusted: string[]) =>
      reached(said, { from, trusted }) === 'http://gw.example'
    expect(known('10.0.0.1', ['10.0.0.1'])).to.equal(true)
    expect(known('10.0.0.2', ['10.0.0.1'])).to.equal(false)
    expect(known('::ffff:10.1.2.3', ['10.0.0.0/8'])).to.equal(true)
    expect(known('2001:db8::5', ['2001:db8::/32'])).to.equal(true)
    expect(known('2001:db9::5', ['2001:db8::/32'])).to.equal(false)
  })

  it('makes a policy invalid if it is not a plain base URL', () => {
    const wrong = [
      'gw.example',
      'ftp://gw.example',
      'https://u:p@gw.example',
      'https://gw.example?a=1',
      'https://gw.example/#a',
      'https://a"b/',
    ]
    for (const value of wrong) expect(refused(publicUrlSchema, value), value).to.equal(true)
    expect(refused(publicUrlSchema, 'https://gw.example/tools/')).to.equal(false)
  })

  it('makes a policy invalid with trusted proxies that are not addresses', () => {
    const wrong = ['proxy', '10.0.0.0/33', '10.0.0', '::/129', '10.0.0.1/', 'fe80::1%eth0', '10.0.0.0/8/8']
    for (const value of wrong) expect(refused(trustedProxiesSchema, [value]), value).to.equal(true)
    expect(refused(trustedProxiesSchema, ['10.0.0.0/8', '::1', '127.0.0.1'])).to.equal(false)
  })
})
