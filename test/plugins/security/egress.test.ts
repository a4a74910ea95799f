import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { send } from '../../support/stage-rig.js'
import { detailsOf, isAllowed, stringTests, testContentRule } from './content-rule.js'
import { securityStage } from './rig.js'

const egress_allowlist = [
  'good.com',
  '*.example.com',
  'api.test:8443',
  '10.0.0.7',
  'bücher.example',
  'localhost:3000',
]
const security = { egress_allowlist }
const { allows, finds } = stringTests(security)

const notAllowed = (host: string) => `$.q would contact ${host}; egress_allowlist does not allow it`
const reserved = (host: string) =>
  `$.q would contact ${host}; no pattern of egress_allowlist names this private or reserved host`

describe('security: egress', () => {
  testContentRule({
    key: 'egress_allowlist',
    reason: 'egress_violation',
    otherReason: 'fs_violation',
    allowlist: egress_allowlist,
    allowed: { url: 'https://a.example.com/x' },
    violation: {
      argument: 'url',
      value: 'https://evil.com/steal?secret=1',
      detail: 'would contact evil.com; egress_allowlist does not allow it',
    },
    secret: 'secret',
    prose: 'no URL',
    keys: {
      names: [
        'url',
        'uri',
        'href',
        'endpoint',
        'host',
        'webhook',
        'callback',
        'baseUrl',
        'API_HOST',
        'x-webhook-2',
      ],
      violating: ['evil.com', 'evil.com:443/path', 'http://evil.com/'],
      allowed: ['good.com', 'good.com:443/path'],
    },
    nested: {
      args: { a: [{ url: ['good.com', { x: ['evil.com'] }] }] },
      detail: '$.a[0].url[1].x[0] would contact evil.com; egress_allowlist does not allow it',
    },
    otherKeys: { curly: 'evil.com', hostess: 'evil.com', count: 3 },
    memberNames: { violating: { 'http://evil.com/': 1 }, allowed: { url: { 'evil.com': 1 } } },
  })

  describe('for strings that are URLs', () => {
    allows(
      'https://good.com',
      'http://good.com:8080/x?y=http://evil.com#z',
      'HTTPS://GOOD.COM/',
      'wss://good.com/socket',
      '//good.com/x',
      'https://good.com./',
      'https://user:pw@good.com/',
      'https://api.test:8443/',
      'http://xn--bcher-kva.example/',
      'http://BÜCHER.example/',
      'http://10.0.0.7/',
      'http://localhost:3000/',
      'see http://evil.com for more',
      'http://evil.com is bad',
      'https: as they say',
      '// a comment',
      'nginx:latest',
      'label:bug',
      '12:30',
      'urn',
      'C:\\Users\\x',
      '/etc/passwd',
      'arn:aws:s3:::bucket/key',
      '',
    )

    finds('http://evil.com', notAllowed('evil.com'))
    finds('https://evil.com:8443/x', notAllowed('evil.com:8443'))
    finds('//evil.com/x', notAllowed('evil.com'))
    finds('https://example.com/', notAllowed('example.com'))
    finds('https://notexample.com/', notAllowed('notexample.com'))
    finds('https://a.example.com.evil.com/', notAllowed('a.example.com.evil.com'))
    finds('https://api.test/', notAllowed('api.test'))
    finds('https://api.test:443/', notAllowed('api.test'))

    describe('with user names', () => {
      finds('http://good.com@evil.com/', notAllowed('evil.com'))
      finds('http://good.com:80@evil.com/', notAllowed('evil.com'))
      finds('http://good.com%40evil.com/', /host that cannot be parsed/)
      finds('http://a@evil.com@good.com/', /URL parsers disagree/)
      finds('http://a@good.com@evil.com/', /URL parsers disagree/)
    })

    describe('with backslashes', () => {
      finds('http:\\\\evil.com\\x', notAllowed('evil.com'))
      finds('\\\\evil.com\\share', notAllowed('evil.com'))
      finds('/\\evil.com/x', notAllowed('evil.com'))
      finds('http://evil.com\\@good.com/', /URL parsers disagree/)
      finds('http://good.com\\@evil.com/', /URL parsers disagree/)
      finds('http://good.com\\.evil.com@evil.com/', /URL parsers disagree/)
    })

    describe('with too few or too many slashes', () => {
      finds('http:evil.com', notAllowed('evil.com'))
      finds('http:/evil.com', notAllowed('evil.com'))
      finds('http:////evil.com', notAllowed('evil.com'))
      finds('///evil.com', notAllowed('evil.com'))
      finds(`http:${'/'.repeat(5000)}evil.com`, /too long to determine its host/)
    })

    describe('with white space and control characters', () => {
      finds(' \n\thttp://evil.com ', notAllowed('evil.com'))
      finds('\u0000\u001fhttp://evil.com', notAllowed('evil.com'))
      finds('\u00a0\ufeffhttp://evil.com', notAllowed('evil.com'))
      finds('ht\ntp://ev\til.com', notAllowed('evil.com'))
      finds('/\t/evil.com', notAllowed('evil.com'))
      finds(`${'\n'.repeat(10_000)}http://evil.com`, notAllowed('evil.com'))
      finds(`h${'\t'.repeat(10_000)}ttp://evil.com`, notAllowed('evil.com'))
      finds('http://evil.com\u0000.good.com', /host that cannot be parsed/)
    })

    describe('with other IP notations', () => {
      for (const host of [
        '127.0.0.1',
        '2130706433',
        '0x7f000001',
        '0177.0.0.1',
        '0x7f.1',
        '127.1',
        '127.0.0.1.',
      ])
        finds(`http://${host}/`, reserved('127.0.0.1'))
      finds('http://017700000001/', reserved('127.0.0.1'))
      finds('http://0/', reserved('0.0.0.0'))
      finds('http://[::1]/', reserved('::1'))
      finds('http://[::ffff:127.0.0.1]/', reserved('127.0.0.1'))
      finds('http://[::ffff:7f00:1]:81/', reserved('127.0.0.1:81'))
      finds('http://[::127.0.0.1]/', reserved('::7f00:1'))
      finds('http://[64:ff9b::a9fe:a9fe]/', reserved('64:ff9b::a9fe:a9fe'))
      finds('http://[2002:7f00:1::]/', reserved('2002:7f00:1::'))
      finds('http://[fe80::1%25eth0]/', /host that cannot be parsed/)
      allows('http://0xA.0.0.7/')
      allows('http://167772167/')
      allows('http://[::ffff:10.0.0.7]/')
    })

    describe('with Unicode characters', () => {
      finds('http://gооd.com/', notAllowed('xn--gd-fmca.com'))
      finds('http://ｅｖｉｌ.com/', notAllowed('evil.com'))
      finds('http://evil。com/', notAllowed('evil.com'))
      finds('http://１２７.０.０.１/', reserved('127.0.0.1'))
      finds('http://①②⑦.0.0.1/', reserved('127.0.0.1'))
      finds('http://e\u00advil.com/', notAllowed('evil.com'))
      finds('http://good.com\u2044.evil.com/', /cannot be parsed|xn--/)
      allows('http://ｇｏｏｄ.com/')
    })

    describe('percent-encoded', () => {
      finds('http://%65vil.com/', notAllowed('evil.com'))
      finds('http://%31%32%37.0.0.1/', reserved('127.0.0.1'))
      finds('http://%2565vil.com/', /host that cannot be parsed/)
      finds('http://good.com%2f.evil.com/', /host that cannot be parsed/)
      finds('http://evil.com%00.good.com/', /host that cannot be parsed/)
      finds('http%3A%2F%2Fevil.com%2F', notAllowed('evil.com'))
      finds('http%253A%252F%252Fevil.com', notAllowed('evil.com'))
      finds('%2F%2Fevil.com', notAllowed('evil.com'))
      finds('%68ttp://evil.com', notAllowed('evil.com'))
      allows('http%3A%2F%2Fgood.com%2F')
      allows('100%25 sure')
    })

    describe('that are invalid or ambiguous', () => {
      finds('http://evil.com:99999/', /host that cannot be parsed/)
      finds('http://[::1/', /host that cannot be parsed/)
      finds('http://', /host that cannot be parsed/)
      finds('http://evil.com,a.example.com/', notAllowed('evil.com,a.example.com'))
      finds('http://.example.com/', notAllowed('.example.com'))
      finds('http://a..example.com/', notAllowed('a..example.com'))
      finds(`http://${'a.'.repeat(200)}example.com/`, /egress_allowlist does not allow it/)
      finds(`http://${'a'.repeat(1000)}/`, /host that cannot be parsed/)
      finds(`http://${'a'.repeat(5000)}@evil.com/`, /too long to determine its host/)
    })

    describe('with other schemes', () => {
      for (const text of [
        'ftp://good.com/x',
        'gopher://good.com:70/_',
        'data:text/html,<script>',
        'javascript:fetch("//evil.com")',
        'jar:http://good.com!/x',
        'feed:https://good.com/',
        'view-source:good.com',
        'mailto:a@good.com',
        'file:///etc/passwd',
        'file://good.com/share',
        'FILE:/etc/passwd',
        'ldap:good.com',
        'see:http:good.com',
        'git+ssh://good.com/x',
      ])
        finds(text, /has the scheme [a-z+-]+:, which egress_allowlist does not allow/)
      allows('data: the numbers')
    })
  })

  describe('for values of a key named for URLs', () => {
    const url = stringTests(security, 'url')

    for (const text of [
      'good.com@evil.com',
      'evil.com\\@good.com',
      '2130706433',
      '0x7f.1',
      '[::1]',
      '::1',
      'localhost',
      'localhost.',
      'LOCALHOST:80',
      'evil.com:80:80',
      'evil.com good.com',
      'good.com,evil.com',
      'http%3A%2F%2Fevil.com',
      '%2F%2Fevil.com',
      '/%2Fevil.com',
      '\\evil.com',
      'mailto:good.com',
      'good.com:x',
      'data: x',
      'x',
    ])
      url.finds(text)

    url.allows('', '/v1/users', '?page=2', '#top', '../x', './x', ' good.com ')

    it('treats a path as a host only under a key named host', async () => {
      expect(await isAllowed(security, { host: '/evil.com' })).to.equal(false)
      expect(await isAllowed(security, { url: '/evil.com' })).to.equal(true)
    })

    it('treats a key that is too long to split as named for the rule', async () => {
      expect(await isAllowed(security, { ['a'.repeat(257)]: 'evil.com' })).to.equal(false)
    })
  })

  it('applies to prompts and resources, and of the protocol to responses alone', async () => {
    for (const [kind, method, count] of [
      ['prompt', 'prompts/get', 1],
      ['resource', 'resources/read', 1],
      ['protocol', 'ping', 0],
      ['protocol', null, 1],
      ['protocol', 'tasks/update', 1],
    ] as const) {
      const uri = 'http://evil.com'
      const args = method === 'tasks/update' ? { taskId: uri, inputResponses: { key: uri } } : { uri }
      const call = makeCall({ args, request: { kind, method } })
      await send(securityStage(security), call)
      expect(call.findings, kind).to.have.lengthOf(count)
    }
  })

  it('reports eight violations and the number of others', async () => {
    const details = await detailsOf(
      security,
      Array.from({ length: 100 }, (_, i) => `http://evil.com/${i}`),
    )
    expect(details).to.have.lengthOf(9)
    expect(details[7]).to.equal('$[7] would contact evil.com; egress_allowlist does not allow it')
    expect(details[8]).to.equal('92 more in the arguments')
  })
})
