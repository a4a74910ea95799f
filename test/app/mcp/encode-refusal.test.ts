import { type Denied, denied, type Failed, failed } from '@svc/core'
import { expect } from 'chai'
import { type ErrorSubject, noCall } from 'svc-sdk/internal/http/response'
import type { McpExchange } from 'svc-sdk/internal/mcp/exchange'
import { encodeRefusal as encoded } from 'svc-sdk/internal/mcp/message-outcome'
import { rpcCodes } from 'svc-sdk/internal/mcp/protocol'

const trace = '0af7651916cd43dd8448eb211c80319c'
const call = noCall(trace)

function exchange(over: Partial<McpExchange> = {}): McpExchange {
  return {
    method: 'POST',
    headers: {},
    server: 'files',
    upstream: () => new URL('http://127.0.0.1:1/mcp'),
    tasks: [],
    message: undefined,
    id: 7,
    protocolError: undefined,
    isForeignSession: false,
    learned: {},
    ...over,
  }
}

const notAllowed = denied('TOOL_NOT_ALLOWED', 'No.', {
  denial: { level: 'tenant', reason: 'tool_not_in_allowlist' },
})
const encodeRefusal = (...[refused, outcome, subject]: [McpExchange, Denied | Failed, ErrorSubject]) =>
  encoded(refused, outcome, subject, 'error')
const bodyOf = (response: { body: string | Uint8Array }): unknown => JSON.parse(String(response.body))

describe('a refusal over MCP', () => {
  it('is HTTP 200 with a JSON-RPC error for a request: the status as code, the error object as data', () => {
    const response = encodeRefusal(exchange(), notAllowed, call)
    expect(response.status).to.equal(200)
    expect(response.headers['content-type']).to.equal('application/json')
    expect(bodyOf(response)).to.deep.equal({
      jsonrpc: '2.0',
      id: 7,
      error: {
        code: 403,
        message: 'No.',
        data: {
          error: 'TOOL_NOT_ALLOWED',
          message: 'No.',
          denial_level: 'tenant',
          denial_reason: 'tool_not_in_allowlist',
          sent: false,
          trace_id: trace,
        },
      },
    })
  })

  it('keeps the retry headers', () => {
    const response = encodeRefusal(
      exchange(),
      denied('RATE_LIMITED', 'Slow.', { headers: { 'retry-after': '3' } }),
      call,
    )
    expect(response.status).to.equal(200)
    expect(response.headers['retry-after']).to.equal('3')
    expect(bodyOf(response)).to.have.nested.property('error.code', 429)
    expect(bodyOf(response)).to.have.nested.property('error.data.retryAfter', 3)
  })

  it('names whether a failed call was sent upstream', () => {
    const response = encodeRefusal(exchange(), failed('UPSTREAM_UNREACHABLE', 'Gone.'), {
      ...call,
      sent: 'unknown',
    })
    expect(bodyOf(response)).to.have.nested.property('error.data.sent', 'unknown')
  })

  for (const [what, over] of [
    ['a notification or a response', { id: undefined }],
    ['a GET', { id: undefined, method: 'GET' }],
  ] as const) {
    it(`is a plain HTTP error for ${what}`, () => {
      const response = encodeRefusal(exchange(over), notAllowed, call)
      expect(response.status).to.equal(403)
      expect(bodyOf(response)).to.include({ error: 'TOOL_NOT_ALLOWED' })
    })
  }

  it("stays an HTTP error if the client's OAuth flow must see it", () => {
    const challenge = { headers: { 'www-authenticate': 'Bearer error="insufficient_scope"' } }
    expect(encodeRefusal(exchange(), denied('UNAUTHENTICATED', 'Who?'), call).status).to.equal(401)
    const scope = encodeRefusal(exchange(), denied('TOOL_NOT_ALLOWED', 'More.', challenge), call)
    expect(scope.status).to.equal(403)
    expect(scope.headers['www-authenticate']).to.include('insufficient_scope')
  })

  for (const [what, id] of [
    ['a request', 7],
    ['a GET', null],
  ] as const) {
    it(`is HTTP 404 with a JSON-RPC error for a session: ${what}`, () => {
      const over = { isForeignSession: true, id: id ?? undefined }
      const response = encodeRefusal(exchange(over), denied('TARGET_NOT_FOUND', 'No session.'), call)
      expect(response.status).to.equal(404)
      expect(bodyOf(response)).to.include({ jsonrpc: '2.0', id }).and.have.nested.property('error.code', 404)
    })
  }

  for (const [name, status, over] of [
    ['parseError', 400, { id: undefined }],
    ['invalidRequest', 400, {}],
    ['headerMismatch', 400, {}],
    ['invalidParams', 200, {}],
    ['methodNotFound', 200, { headers: { 'mcp-protocol-version': '2025-11-25' } }],
    ['methodNotFound', 404, { headers: { 'mcp-protocol-version': '2026-07-28' } }],
  ] as const) {
    it(`of a message that breaks the protocol has the protocol's code: ${name} with ${status}`, () => {
      const code = rpcCodes[name]
      const response = encodeRefusal(
        exchange({ ...over, protocolError: { code } }),
        denied('BAD_REQUEST', 'Bad.'),
        call,
      )
      expect(response.status).to.equal(status)
      expect(bodyOf(response)).to.have.nested.property('error.code', code)
      expect(bodyOf(response)).to.have.property('id', 'id' in over ? null : 7)
    })
  }
})
