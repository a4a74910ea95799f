import { expect } from 'chai'
import fc from 'fast-check'
import { detailsOf, isAllowed, testInvalidPatterns } from './content-rule.js'

const allows = (patterns: string[], url: string) => isAllowed({ egress_allowlist: patterns }, { url })

const label = fc.constantFrom('a', 'b', 'example', 'com', 'x-1')
const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => `${labels.join('.')}.test`)
const port = fc.constantFrom('', ':80', ':443', ':8443')

describe('security: egress patterns', () => {
  it('with *. match only subdomains', async () => {
    expect(await allows(['*.a.test'], 'http://b.a.test')).to.equal(true)
    expect(await allows(['*.a.test'], 'http://c.b.a.test')).to.equal(true)
    expect(await allows(['*.a.test'], 'http://a.test')).to.equal(false)
    expect(await allows(['*.a.test'], 'http://ba.test')).to.equal(false)
  })

  it('match every port without a port, else only that port', async () => {
    expect(await allows(['a.test'], 'http://a.test:1234')).to.equal(true)
    expect(await allows(['a.test:443'], 'https://a.test')).to.equal(true)
    expect(await allows(['a.test:443'], 'http://a.test')).to.equal(false)
    expect(await allows(['a.test:80'], 'ws://a.test')).to.equal(true)
    expect(await allows(['a.test:80'], 'a.test:80')).to.equal(true)
    expect(await allows(['a.test:80'], 'a.test')).to.equal(false)
    expect(await allows(['[2606:4700::1]:80'], 'http://[2606:4700::1]')).to.equal(true)
  })

  it('match http, https, ws and wss without a scheme, else only that scheme', async () => {
    expect(await allows(['https://a.test'], 'https://a.test')).to.equal(true)
    expect(await allows(['https://a.test'], 'http://a.test')).to.equal(false)
    expect(await allows(['https://a.test'], 'a.test')).to.equal(false)
    expect(await allows(['ftp://a.test'], 'ftp://a.test/x')).to.equal(true)
    expect(await allows(['memo://*'], 'memo://insights.test')).to.equal(true)
    expect(await allows(['*'], 'memo://insights.test')).to.equal(false)
  })

  it('match private, loopback, link-local and metadata hosts only by full name', async () => {
    for (const host of [
      '127.0.0.1',
      '10.1.2.3',
      '100.100.100.200',
      '172.31.0.1',
      '192.168.0.1',
      '169.254.169.254',
      '168.63.129.16',
      '0.0.0.0',
      '255.255.255.255',
      '224.0.0.1',
      '[::1]',
      '[fd00:ec2::254]',
      '[fe80::1]',
      'localhost',
      'a.localhost',
      'metadata.google.internal',
      'metadata',
    ]) {
      expect(
        await allows(['*', '*.localhost', '*.internal', '*.google.internal'], `http://${host}`),
        host,
      ).to.equal(false)
      expect(await allows([host], `http://${host}`), host).to.equal(true)
    }
  })

  it('do not match names of the local network with * alone', async () => {
    expect(await allows(['*'], 'http://printer.local')).to.equal(false)
    expect(await allows(['*'], 'http://intranet')).to.equal(false)
    expect(await allows(['*.local'], 'http://printer.local')).to.equal(true)
    expect(await allows(['*'], 'http://8.8.8.8')).to.equal(true)
    expect(await allows(['*'], 'http://[2606:4700::1]')).to.equal(true)
    expect(await allows(['*'], 'http://evil.com')).to.equal(true)
  })

  it('are normalized like hosts', async () => {
    expect(await allows(['2130706433'], 'http://127.1')).to.equal(true)
    expect(await allows(['EXAMPLE.test.'], 'http://example.test')).to.equal(true)
    expect(await allows(['::1'], 'http://[::1]:80')).to.equal(true)
    expect(await allows(['*.bücher.test'], 'http://a.xn--bcher-kva.test')).to.equal(true)
  })

  testInvalidPatterns('egress_allowlist', 'good.com', [
    ['a.*.test', '* is allowed alone or as the first label, as in *.example.com'],
    ['*a.test', '* is allowed alone or as the first label, as in *.example.com'],
    ['10.0.0.*', '* is allowed alone or as the first label, as in *.example.com'],
    ['*.0.0.1', 'an IP address has no subdomains'],
    ['https://a.test/x', 'a host pattern must not contain a path, query, user name or space'],
    ['user@a.test', 'a host pattern must not contain a path, query, user name or space'],
    ['a.test:0', 'a port must be a number from 1 to 65535'],
    ['a.test:65536', 'a port must be a number from 1 to 65535'],
    ['a,b.test', 'not a valid host'],
    ['*.', 'not a valid host'],
    ['a.test:x', 'not a valid host'],
    ['file://a.test', 'file: URLs are configured in fs_allowlist'],
  ])

  it('agree with a naive implementation', async () => {
    const host = fc.tuple(name, port).map(([text, at]) => text + at)
    const pattern = fc.tuple(fc.constantFrom('', '*.'), host).map(([star, text]) => star + text)
    await fc.assert(
      fc.asyncProperty(fc.array(pattern, { maxLength: 4 }), host, async (patterns, target) => {
        expect(await allows(patterns, `https://${target}/x`)).to.equal(patterns.some((p) => naive(p, target)))
      }),
    )
  })

  it('never allow a host because of the text around it', async () => {
    const noise = fc.constantFrom('', 'good.test@', 'good.test:80@', '%67ood.test@')
    const lead = fc.constantFrom('http://', 'HTTPS:\\\\', '//', 'ws:', ' \thttp:/', 'h\nttp://')
    const evil = fc.constantFrom(
      'evil.test',
      'EVIL.test',
      '%65vil.test',
      'ｅｖｉｌ.test',
      'evil.test.',
      '127.1',
      '[::1]',
    )
    const tail = fc.constantFrom('', '/', '/@good.test', '?@good.test', '#@good.test', ':81', '/good.test')
    await fc.assert(
      fc.asyncProperty(lead, noise, evil, tail, async (a, b, c, d) => {
        expect(await detailsOf({ egress_allowlist: ['good.test'] }, { q: a + b + c + d })).to.have.lengthOf(1)
      }),
    )
  })
})

function naive(pattern: string, target: string): boolean {
  const [patternHost = '', patternPort] = pattern.split(':')
  const [host = '', targetPort = '443'] = target.split(':')
  if (patternPort !== undefined && patternPort !== targetPort) return false
  return patternHost.startsWith('*.') ? host.endsWith(patternHost.slice(1)) : host === patternHost
}
