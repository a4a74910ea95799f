// Requests without a token at the admin listener get the gateway's health or a refusal.
import { connect } from 'node:net'
import { expect } from 'chai'
import fc from 'fast-check'
import { ofEachTest } from '../../support/parts.js'
import { ask, startAdminRig } from './rig.js'

/** Sends `text` unchanged, and returns what the connection returns until it closes. */
function raw(url: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    let response = ''
    socket.on('data', (piece) => {
      response += piece.toString('latin1')
    })
    socket.once('error', reject)
    socket.once('close', () => resolve(response))
    socket.write(text, 'latin1')
  })
}

describe('the admin listener, without a token', () => {
  const rig = ofEachTest(() => startAdminRig())
  beforeEach(() => {
    rig.service.open('E1')
  })

  const pieces = fc.constantFrom(
    ...[
      'api',
      'escalations',
      'E1',
      'votes',
      'metrics',
      'healthz',
      'console',
      '..',
      '.',
      '%2e%2e',
      '',
      '//',
      '%00',
    ],
    ...['?status=pending', '?', '#', '%2F', 'METRICS', ';', '__proto__'],
  )
  const path = fc.array(pieces, { maxLength: 5 }).map((parts) => `/${parts.join('/')}`)
  const method = fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE')
  const authorization = fc.oneof(
    fc.constantFrom('', 'Bearer', 'Bearer ', 'Bearer undefined', 'Bearer null', 'bearer ==', 'Basic YTpi'),
    fc.base64String({ maxLength: 60 }).map((token) => `Bearer ${token}`),
  )

  it('serves only health and the login, on any path and by any method', async () => {
    await fc.assert(
      fc.asyncProperty(path, method, authorization, async (target, by, bearer) => {
        const headers = { authorization: bearer, 'content-type': 'application/json' }
        const { status, text } = await ask(rig.adminUrl, target, { method: by, headers })
        expect(text).not.to.match(/svc_|refund/)
        if (status === 200) expect(target.split('?')[0]).to.equal('/healthz')
        else if (target.startsWith('/console')) expect(status).to.be.oneOf([307, 400, 401, 404])
        else expect(status).to.be.within(400, 404)
        expect(rig.service.cases.get('E1')?.votes).to.deep.equal([])
      }),
      { numRuns: 300 },
    )
  })

  const shapes: [string, string][] = [
    [
      'two Authorization headers',
      'GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\nConnection: close\r\n\r\n',
    ],
    ['no Host header', 'GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n'],
    [
      'two Host headers',
      'GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    ],
    ['HTTP/1.0 without a Host header', 'GET /metrics HTTP/1.0\r\n\r\n'],
    [
      'an absolute target of another host',
      'GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    ],
    [
      'both length headers',
      'POST /api/escalations/E1/votes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'a body that a GET smuggles',
      'GET /healthz HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 30\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    ],
    ['headers over 16 KiB', `GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['text that is not HTTP', '\x16\x03\x01\x00\xa5\x01\x00\x00\r\n\r\n'],
  ]
  for (const [name, text] of shapes) {
    it(`refuses a request with ${name}`, async () => {
      const response = await raw(rig.adminUrl, text)
      expect(response)
        .to.match(/^HTTP\/1\.1 4\d\d /)
        .and.not.match(/HTTP\/1\.1 200|svc_calls/)
    })
  }
})
