import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import fc from 'fast-check'
import { detailsOf } from './content.js'

async function allows(patterns: string[], url: string): Promise<boolean> {
  return (await detailsOf({ egress_allowlist: patterns }, { url })).length === 0
}

const label = fc.constantFrom('a', 'b', 'example', 'com', 'x-1')
const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => `${labels.join('.')}.test`)
const port = fc.constantFrom('', ':80', ':443', ':8443')

describe('security: egress patterns', () => {
  it('with a star match subdomains only', async () => {
    expect(await allows(['*.a.test'], 'http://b.a.test')).to.equal(true)
    expect(await allows(['*.a.test'], 'http://c.b.a.test')).to.equal(true)
    expect(await allows(['*.a.test'], 'http://a.test')).to.equal(false)
    expect(await allows(['*.a.test'], 'http://ba.test')).to.equal(false)
  })

  it('without a port match every port, with one that port', async () => {
    expect(await allows(['a.test'], 'http://a.test:1234')).to.equal(true)
    expect(await allows(['a.test:443'], 'https://a.test')).to.equal(true)
    expect(await allows(['a.test:443'], 'http://a.test')).to.equal(false)
    expect(await allows(['a.test:80'], 'ws://a.test')).to.equal(true)
    expect(await allows(['a.test:80'], 'a.test:80')).to.equal(true)
    expect(await allows(['a.test:80'], 'a.test')).to.equal(false)
    expect(await allows(['[2606:4700::1]:80'], 'http://[2606:4700::1]')).to.equal(true)
  })

  it('with a scheme match that scheme, without one those of the web', async () => {
    expect(await allows(['https://a.test'], 'https://a.test')).to.equal(true)
    expect(await allows(['https://a.test'], 'http://a.test')).to.equal(false)
    expect(await allows(['https://a.test'], 'a.test')).to.equal(false)
    expect(await allows(['ftp://a.test'], 'ftp://a.test/x')).to.equal(true)
    expect(await allows(['memo://*'], 'memo://insights.test')).to.equal(true)
    expect(await allows(['*'], 'memo://insights.test')).to.equal(false)
  })

  it('name private, loopback, link-local and metadata hosts whole or not at all', async () => {
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

  it('take more than a bare star for names of the network at hand', async () => {
    expect(await allows(['*'], 'http://printer.local')).to.equal(false)
    expect(await allows(['*'], 'http://intranet')).to.equal(false)
    expect(await allows(['*.local'], 'http://printer.local')).to.equal(true)
    expect(await allows(['*'], 'http://8.8.8.8')).to.equal(true)
    expect(await allows(['*'], 'http://[2606:4700::1]')).to.equal(true)
    expect(await allows(['*'], 'http://evil.com')).to.equal(true)
  })

  it('are read as hosts are', async () => {
    expect(await allows(['2130706433'], 'http://127.1')).to.equal(true)
    expect(await allows(['EXAMPLE.test.'], 'http://example.test')).to.equal(true)
    expect(await allows(['::1'], 'http://[::1]:80')).to.equal(true)
    expect(await allows(['*.bücher.test'], 'http://a.xn--bcher-kva.test')).to.equal(true)
  })

  for (const [pattern, message] of [
    ['a.*.test', 'a star stands alone or as the first label, as in *.example.com'],
    ['*a.test', 'a star stands alone or as the first label, as in *.example.com'],
    ['10.0.0.*', 'a star stands alone or as the first label, as in *.example.com'],
    ['*.0.0.1', 'an address has no subdomains'],
    ['https://a.test/x', 'a host pattern has no path, query, user or space; write the host alone'],
    ['user@a.test', 'a host pattern has no path, query, user or space; write the host alone'],
    ['a.test:0', 'a port is a number from 1 to 65535'],
    ['a.test:65536', 'a port is a number from 1 to 65535'],
    ['a,b.test', 'this is no host'],
    ['*.', 'this is no host'],
    ['a.test:x', 'this is no host'],
    ['file://a.test', 'what file: URLs open is for fs_allowlist'],
  ] as const)
    it(`refuse ${pattern} at load`, () => {
      const { error } = securityPlugin.schema.safeParse({ egress_allowlist: ['good.com', pattern] })
      expect(error?.issues.map(({ path, message }) => [path.join('.'), message])).to.deep.equal([
        ['egress_allowlist.1', message],
      ])
    })

  it('decide as a naive reading of the rule does', async () => {
    const host = fc.tuple(name, port).map(([text, at]) => text + at)
    const pattern = fc.tuple(fc.constantFrom('', '*.'), host).map(([star, text]) => star + text)
    await fc.assert(
      fc.asyncProperty(fc.array(pattern, { maxLength: 4 }), host, async (patterns, target) => {
        expect(await allows(patterns, `https://${target}/x`)).to.equal(patterns.some((p) => naive(p, target)))
      }),
    )
  })

  it('never let a host through for what stands around it', async () => {
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
