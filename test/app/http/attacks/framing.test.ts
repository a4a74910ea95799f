// Request smuggling: requests whose end two servers may see at different places, sent as raw bytes.
import { expect } from 'chai'
import { sendRaw } from '../../../support/raw.js'
import { AttackedGateway } from './rig.js'

const start = 'POST /mcp/files/read@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n'
const chunked = 'transfer-encoding: chunked\r\n'
const body = '2\r\n{}\r\n0\r\n\r\n'
/** The request that an attacker tries to smuggle. */
const smuggled = 'POST /mcp/files/smuggled@1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}'

describe('framing', () => {
  const at = new AttackedGateway()

  const refused: readonly (readonly [title: string, request: string])[] = [
    ['both length headers', `${start}content-length: 2\r\n${chunked}\r\n${body}`],
    ['both length headers, the other way round', `${start}${chunked}content-length: 2\r\n\r\n${body}`],
    ['two lengths that differ', `${start}content-length: 2\r\ncontent-length: 4\r\n\r\n{}`],
    ['two lengths that agree', `${start}content-length: 2\r\ncontent-length: 2\r\n\r\n{}`],
    ['a list of lengths', `${start}content-length: 2, 2\r\n\r\n{}`],
    ['a length with a sign', `${start}content-length: +2\r\n\r\n{}`],
    ['a negative length', `${start}content-length: -2\r\n\r\n{}`],
    ['a hexadecimal length', `${start}content-length: 0x2\r\n\r\n{}`],
    ['an empty length', `${start}content-length:\r\n\r\n{}`],
    ['a length no number holds', `${start}content-length: 99999999999999999999999\r\n\r\n{}`],
    ['a space before the colon', `${start}content-length : 2\r\n\r\n{}`],
    ['the coding identity', `${start}transfer-encoding: identity\r\n\r\n${smuggled}`],
    ['a coding before chunked', `${start}transfer-encoding: gzip, chunked\r\n\r\n${body}`],
    ['a coding after chunked', `${start}transfer-encoding: chunked, gzip\r\n\r\n${body}`],
    ['a coding like chunked', `${start}transfer-encoding: xchunked\r\n\r\n${body}`],
    ['chunked in quotes', `${start}transfer-encoding: "chunked"\r\n\r\n${body}`],
    ['chunked behind a vertical tab', `${start}transfer-encoding: \x0bchunked\r\n\r\n${body}`],
    ['chunked twice', `${start}transfer-encoding: chunked, chunked\r\n\r\n${body}`],
    ['chunked in two headers', `${start}${chunked}${chunked}\r\n${body}`],
    ['chunked hidden by another header', `${start}transfer-encoding: identity\r\n${chunked}\r\n${body}`],
    [
      'chunked in HTTP/1.0',
      `POST /mcp/files/read@1 HTTP/1.0\r\nhost: 127.0.0.1\r\nconnection: keep-alive\r\n${chunked}\r\n${body}${smuggled}`,
    ],
    ['a chunk size that is not a number', `${start}${chunked}\r\nzz\r\n{}\r\n0\r\n\r\n`],
    ['a chunk size with a prefix', `${start}${chunked}\r\n0x2\r\n{}\r\n0\r\n\r\n`],
    ['a negative chunk size', `${start}${chunked}\r\n-2\r\n{}\r\n0\r\n\r\n`],
    ['a space after the chunk size', `${start}${chunked}\r\n2 \r\n{}\r\n0\r\n\r\n`],
    ['a chunk size that overflows', `${start}${chunked}\r\nfffffffffffffffff2\r\n{}\r\n0\r\n\r\n`],
    ['a chunk longer than it says', `${start}${chunked}\r\n1\r\n{}\r\n0\r\n\r\n`],
    ['chunks that end in bare line feeds', `${start}${chunked}\r\n2\n{}\n0\n\n`],
    ['a line feed in a chunk extension', `${start}${chunked}\r\n2;a\nb\r\n{}\r\n0\r\n\r\n`],
    ['a flood in a chunk extension', `${start}${chunked}\r\n2;${'a'.repeat(30_000)}\r\n{}\r\n0\r\n\r\n`],
    ['a length among the trailers', `${start}${chunked}\r\n2\r\n{}\r\n0\r\ncontent-length: 5\r\n\r\n`],
    ['a flood of trailers', `${start}${chunked}\r\n2\r\n{}\r\n0\r\nx: ${'a'.repeat(30_000)}\r\n\r\n`],
    ['a folded header', `${start}x-a: b\r\n c: d\r\ncontent-length: 2\r\n\r\n{}`],
    ['a folded coding', `${start}transfer-encoding:\r\n chunked\r\n\r\n${body}`],
    ['a space before the first header', `${start.replace('host', ' host')}content-length: 2\r\n\r\n{}`],
    ['bare line feeds', `${start.replaceAll('\r', '')}content-length: 2\n\n{}`],
    ['one bare line feed', `${start}x-a: b\ncontent-length: 2\r\n\r\n{}`],
    ['a bare carriage return', `${start}x-a: b\rcontent-length: 2\r\n\r\n{}`],
    ['a NUL in a value', `${start}x-a: b\0c\r\ncontent-length: 2\r\n\r\n{}`],
    ['a NUL in a name', `${start}x-\0a: b\r\ncontent-length: 2\r\n\r\n{}`],
    ['a control character in a value', `${start}x-a: b\x01c\r\ncontent-length: 2\r\n\r\n{}`],
    ['a header without a name', `${start}: b\r\ncontent-length: 2\r\n\r\n{}`],
    ['a header without a colon', `${start}b\r\ncontent-length: 2\r\n\r\n{}`],
  ]
  for (const [title, request] of refused) {
    it(`refuses ${title}, and closes the connection`, async () => {
      const { statuses, text } = await sendRaw(at.gateway.url, request)
      expect(statuses).to.deep.equal([400])
      expect(text).to.contain('"error":"BAD_REQUEST"').and.to.contain('"sent":false')
      expect(at.upstream.calls).to.have.length(0)
    })
  }

  it('sends a trace id when the parser refuses a request', async () => {
    const { text } = await sendRaw(at.gateway.url, `${start}content-length: +2\r\n\r\n{}`)
    const [, inHeader] = /\r\nx-trace-id: ([0-9a-f]{32})\r\n/.exec(text) ?? []
    const [, inBody] = /"trace_id":"([0-9a-f]{32})"/.exec(text) ?? []
    expect(inHeader).to.equal(inBody).and.not.to.equal(undefined)
  })

  const accepted: readonly (readonly [title: string, request: string])[] = [
    ['chunked in capitals', `${start}connection: close\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n${body}`],
    ['a chunk extension', `${start}connection: close\r\n${chunked}\r\n2;a=b\r\n{}\r\n0\r\n\r\n`],
    ['empty lines before the request', `\r\n\r\n${start}connection: close\r\ncontent-length: 2\r\n\r\n{}`],
    [
      'a name with an underscore as another header',
      `${start}connection: close\r\ntransfer_encoding: chunked\r\ncontent_length: 7\r\ncontent-length: 2\r\n\r\n{}`,
    ],
    [
      'a hop-by-hop list that names the length',
      `${start}connection: close, content-length\r\ncontent-length: 2\r\n\r\n{}`,
    ],
  ]
  for (const [title, request] of accepted) {
    it(`takes ${title}`, async () => {
      expect((await sendRaw(at.gateway.url, request)).statuses).to.deep.equal([200])
      expect(at.upstream.calls.map(({ body }) => body)).to.deep.equal(['{}'])
    })
  }

  it('reads the body of a GET as its body, not as the next request', async () => {
    const get = `GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: ${smuggled.length}\r\n\r\n${smuggled}`
    expect((await sendRaw(at.gateway.url, get)).statuses).to.deep.equal([200])
    expect(at.upstream.calls).to.have.length(0)
  })

  it('serves no request after one that it refused', async () => {
    const { statuses } = await sendRaw(
      at.gateway.url,
      `${start}transfer-encoding: gzip, chunked\r\n\r\n${body}${smuggled}`,
    )
    expect(statuses).to.deep.equal([400])
    expect(at.upstream.calls).to.have.length(0)
  })

  it('sends a body that it serializes again, with one length', async () => {
    await sendRaw(at.gateway.url, `${start}connection: close\r\n${chunked}\r\n9\r\n{ "a": 1}\r\n0\r\n\r\n`)
    expect(at.upstream.calls[0]?.body).to.equal('{"a":1}')
    expect(at.upstream.calls[0]?.headers).to.include({ 'content-length': '7' })
    expect(at.upstream.calls[0]?.headers).not.to.have.any.keys('transfer-encoding', 'trailer', 'te')
  })
})
