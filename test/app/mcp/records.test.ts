import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import { callEcho, event, events, info, json, result } from '../../support/mcp-server.js'

describe('the record of a call over MCP', () => {
  it("has the hash of the client's session id, the JSON-RPC id, the revision and the times", () =>
    withGateway(
      (message, response) => events(response, event(result(message))),
      async ({ post, gateway }) => {
        const initialized = await post({ jsonrpc: '2.0', id: 'first', method: 'initialize', params: {} })
        await initialized.text()
        const id = String(initialized.headers.get('mcp-session-id'))
        const headers = { 'mcp-session-id': id, 'mcp-protocol-version': '2025-06-18' }
        await (await post({ ...callEcho, id: 7 }, headers)).text()
        await (await post({ ...callEcho, id: 'x'.repeat(129) }, headers)).text()
        const [begun, call, long] = gateway.records()
        const mcp_session_sha256 = sha256Hex(id)
        expect(begun).to.include({ mcp_revision: info.protocolVersion, mcp_session_sha256, rpc_id: 'first' })
        expect(call).to.include({ mcp_revision: '2025-06-18', mcp_session_sha256, rpc_id: 7 })
        expect(call?.first_byte_ms)
          .to.be.above(0)
          .and.at.most(call?.latency_ms ?? 0)
        expect(long).to.include({ mcp_session_sha256 }).and.not.have.property('rpc_id')
      },
      {},
      's1',
    ))

  it('omits absent members, and a header that is not a revision', () =>
    withGateway(
      (message, response) => json(response, result(message)),
      async ({ post, gateway }) => {
        await (await post(callEcho, { 'mcp-protocol-version': 'a person, by name' })).text()
        const members = ['mcp_revision', 'mcp_session_sha256', 'mcp_task_sha256']
        expect(gateway.records()[0]).to.not.have.any.keys(...members)
      },
    ))

  it('names the session that was refused to another caller', () =>
    withGateway(
      (message, response) => json(response, result(message)),
      async ({ post, gateway }) => {
        await (await post(callEcho, { 'mcp-session-id': 'of another' })).text()
        const [record] = gateway.records()
        expect(record).to.include({ error: 'TARGET_NOT_FOUND', mcp_session_sha256: sha256Hex('of another') })
        expect(record).to.not.have.property('first_byte_ms')
      },
    ))
})
