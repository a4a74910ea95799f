import type { JsonObject } from '@svc/core/json'
import { expect } from 'chai'
import { withoutSession } from 'svc-sdk/internal/mcp/handshake'
import { negotiatedRevision, requestFor, responseFrom } from 'svc-sdk/internal/mcp/revision-translation'

const prefix = 'io.modelcontextprotocol/'
const head = { jsonrpc: '2.0', id: 1 }
const serverInfo = { name: 'files', version: '1' }
const described = { capabilities: {}, serverInfo }
const newer = { ...withoutSession, ...described }
const older = { revision: '2025-11-25', isStateless: false, sessionId: 's', ...described }

describe('a message between revisions', () => {
  it('loses only the members of `_meta` that 2026-07-28 defines for requests', () => {
    const stateless = {
      [`${prefix}protocolVersion`]: '2026-07-28',
      [`${prefix}clientInfo`]: { name: 'test', version: '1' },
      [`${prefix}clientCapabilities`]: {},
      [`${prefix}logLevel`]: 'debug',
    }
    const kept = { [`${prefix}related-task`]: { taskId: 't' }, progressToken: 'p', 'example.com/own': 1 }
    const request = (_meta: JsonObject) => ({ ...head, method: 'tools/list', params: { cursor: 'c', _meta } })
    expect(requestFor(older, true, request({ ...stateless, ...kept }))).to.deep.equal(request(kept))
    expect(requestFor(older, true, request(stateless))).to.have.deep.property('params', { cursor: 'c' })
    const upgraded = requestFor(newer, false, request(kept), () => stateless)
    expect(upgraded).to.deep.equal(request({ ...kept, ...stateless }))
  })

  it('has the members and the error code that a client of 2026-07-28 requires', () => {
    const shown = (result: object, method: string) =>
      responseFrom(older, true, { ...head, result }, method)['result']
    const _meta = { own: 1, [`${prefix}serverInfo`]: serverInfo }
    expect(shown({ content: [], _meta: { own: 1 } }, 'tools/call')).to.deep.equal({
      content: [],
      resultType: 'complete',
      _meta,
    })
    const uncached = { ttlMs: 0, cacheScope: 'private', resultType: 'complete' }
    expect(shown({ tools: [] }, 'tools/list')).to.deep.include(uncached)
    expect(shown({ contents: [] }, 'resources/read')).to.deep.include(uncached)
    const error = { code: -32002, message: 'Resource not found' }
    expect(responseFrom(older, true, { ...head, error }, 'resources/read')).to.deep.equal({
      ...head,
      error: { ...error, code: -32602 },
    })
  })

  it('has no members of 2026-07-28 for an older client, and an error for a request for input', () => {
    const result = { content: [], resultType: 'complete', ttlMs: 5, cacheScope: 'public' }
    const shown = (given: object) => responseFrom(newer, false, { ...head, result: given }, 'tools/call')
    expect(shown(result)).to.deep.equal({ ...head, result: { content: [] } })
    const asking = shown({ resultType: 'input_required' })
    expect(asking).to.not.have.property('result')
    expect(asking).to.have.nested.property('error.code', -32603)
  })

  it('stays the same object between a client and a server of one era', () => {
    const message = { ...head, method: 'tools/list', params: {} }
    for (const server of [older, newer]) {
      expect(requestFor(server, server.isStateless, message)).to.equal(message)
      expect(responseFrom(server, server.isStateless, message, 'tools/list')).to.equal(message)
    }
  })

  it("has the revision that the client requests, up to the server's newest", () => {
    expect(negotiatedRevision('2025-03-26')).to.equal('2025-03-26')
    expect(negotiatedRevision('2099-01-01')).to.equal('2025-11-25')
    expect(negotiatedRevision('2025-11-25', '2025-06-18')).to.equal('2025-06-18')
  })
})
