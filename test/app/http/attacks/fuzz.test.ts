// Fuzzing: bytes of valid requests are inserted, removed and changed.
import { expect } from 'chai'
import fc from 'fast-check'
import { startTestGateway } from '../../../support/gateway.js'
import { ofSuite } from '../../../support/parts.js'
import { propertyRuns } from '../../../support/property-runs.js'
import { sendRaw } from '../../../support/raw.js'
import { startUpstream } from '../../../support/upstream.js'

const start = 'POST /mcp/files/read@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n'
const whole = [
  `${start}content-length: 7\r\n\r\n{"a":1}`,
  `${start}transfer-encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n":1}\r\n0\r\n\r\n`,
  'POST /a2a/invoke HTTP/1.1\r\nhost: localhost:1\r\ncontent-length: 51\r\n\r\n{"to":"files","toolAtVersion":"read@1","args":{}}  ',
  'GET /healthz HTTP/1.1\r\nhost: [::1]\r\nx-agent-ref: a\r\n\r\n',
  'GET http://127.0.0.1/readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n',
]

/** Fragments to insert at random places. */
const fragments = [
  ...[
    '\r\n',
    '\r\n\r\n',
    '\n',
    '\r',
    '\0',
    ' ',
    '\t',
    ':',
    ';',
    ',',
    '\x0b',
    '\xff',
    '/',
    '%2f',
    '..',
    '#',
    '?',
    '*',
  ],
  ...[
    'content-length: 3\r\n',
    'transfer-encoding: chunked\r\n',
    'Transfer-Encoding: identity\r\n',
    'host: x\r\n',
  ],
  ...[
    'connection: close\r\n',
    'expect: 100-continue\r\n',
    'upgrade: h2c\r\n',
    'trailer: host\r\n',
    ' folded\r\n',
  ],
  ...[
    '0\r\n\r\n',
    'ffffffffffffffff\r\n',
    '1;x=y\r\n',
    'HTTP/1.0',
    'HTTP/2.0',
    'CONNECT ',
    'PRI * ',
    '\x16\x03\x01',
  ],
]

interface Change {
  readonly at: number
  readonly take: number
  readonly put: string
}

const change = fc.record<Change>({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  take: fc.nat(6),
  put: fc.oneof(fc.constantFrom(...fragments), fc.constant('')),
})

const attack = fc
  .tuple(
    fc.array(fc.constantFrom(...whole), { minLength: 1, maxLength: 3 }),
    fc.array(change, { minLength: 1, maxLength: 5 }),
  )
  .map(([requests, changes]) =>
    changes.reduce((text, { at, take, put }) => {
      const place = Math.floor(at * text.length)
      return text.slice(0, place) + put + text.slice(place + take)
    }, requests.join('')),
  )

describe('requests with inserted, removed and changed bytes', () => {
  const upstream = ofSuite(() => startUpstream())
  const gateway = ofSuite(() =>
    startTestGateway({
      targets: { files: upstream.url },
      // Short limits end each request, whatever part is missing.
      server: {
        headersTimeoutMs: 20,
        requestTimeoutMs: 40,
        keepAliveTimeoutMs: 1,
        maxRequestsPerConnection: 4,
      },
    }),
  )

  it('get an HTTP response or none, and only calls are sent upstream', async function () {
    this.timeout(propertyRuns(60_000))
    const one = fc.asyncProperty(fc.array(attack, { minLength: 100, maxLength: 100 }), async (attacks) => {
      upstream.calls.splice(0)
      const responses = await Promise.all(attacks.map((text) => sendRaw(gateway.url, text)))
      for (const [index, { text }] of responses.entries()) expectResponses(text, attacks[index] ?? '')
      for (const { method, path, headers, body } of upstream.calls) {
        expect(method).to.equal('POST')
        expect(path).to.match(/^\/invoke\/[^/?#\s]+@[^/?#\s]+$/)
        expect(JSON.stringify(JSON.parse(body))).to.equal(body)
        expect(headers['content-length']).to.equal(String(body.length))
        expect(headers).not.to.have.any.keys('transfer-encoding', 'upgrade', 'expect', 'trailer')
      }
    })
    await fc.assert(one, { numRuns: propertyRuns(1) })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    expect(gateway.log.lines.filter(({ level }) => level === 'error')).to.deep.equal([])
  })
})

/** Expects complete responses with correct lengths, and not more responses than requests. */
function expectResponses(text: string, sent: string): void {
  let rest = text
  let count = 0
  while (rest !== '') {
    if (rest.startsWith('HTTP/1.1 100 Continue\r\n\r\n')) {
      rest = rest.slice('HTTP/1.1 100 Continue\r\n\r\n'.length)
      continue
    }
    const end = rest.indexOf('\r\n\r\n')
    const head = rest.slice(0, end)
    expect(head, sent).to.match(/^HTTP\/1\.1 (200|400|401|403|404|413) /)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    const body = rest.slice(end + 4, end + 4 + length)
    // The response to HEAD has a length and no body.
    if (body !== '') expect(() => JSON.parse(body), sent).not.to.throw()
    rest = rest.slice(end + 4 + length)
    count++
  }
  expect(count, sent).to.be.at.most(sent.split('HTTP/').length + 1)
}
