// Lists the tools of an MCP server over HTTP, without credentials, for commands.
import { isJsonObject } from '@svc/core/json'
import { HttpServers } from '../mcp/http-servers.js'
import { gatewayImplementation } from '../mcp/implementation.js'
import { readPages } from '../mcp/list-pages.js'
import { STATELESS_REVISION } from '../mcp/protocol.js'
import { askServer, type Send, uncounted } from '../mcp/response.js'
import { ServerSessions, sessionHeaders } from '../mcp/server-sessions.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import { clientMeta, headersOfRequest } from '../mcp/stateless-request.js'
import { versionProbe } from '../mcp/version-probe.js'
import { UndiciDispatcher } from '../upstream/undici.js'
import type { ListedTools } from './tool-access.js'

const METHOD = 'tools/list'
const maxBytes = 4 * 1024 * 1024

/** Rejects if the server cannot be reached within `timeoutMs`, is not an MCP server, or demands a credential. */
export async function listHttpTools(server: string, url: URL, timeoutMs: number): Promise<ListedTools> {
  const dispatcher = new UndiciDispatcher({
    connectTimeoutMs: timeoutMs,
    headersTimeoutMs: timeoutMs,
    idleTimeoutMs: timeoutMs,
    wholeUpToBytes: maxBytes,
  })
  const signal = AbortSignal.timeout(timeoutMs)
  const client = gatewayImplementation
  const servers = new HttpServers(dispatcher)
  const send: Send = (head) => servers.send(url, { ...head, signal }, uncounted)
  try {
    const session = await new ServerSessions(client).of('', send)
    const isStateless = session.revision === STATELESS_REVISION
    const { entries } = await readPages('tools', async (cursor) => {
      const params = { ...cursor, ...(isStateless ? { _meta: clientMeta(client) } : {}) }
      const repeated = isStateless ? headersOfRequest(session.revision, METHOD, params) : {}
      const headers = { ...sessionHeaders(session), ...repeated }
      const { result } = await askServer(send, { method: METHOD, params, headers }, maxBytes)
      if (!isJsonObject(result)) throw new Error('the server did not list its tools')
      return result
    })
    const version = await versionProbe({ servers, client, timeoutMs, maxBytes })(url, undefined)
    const names = entries.flatMap(({ name }) => (typeof name === 'string' ? [name] : []))
    return { server, version: version ?? UNVERSIONED, names }
  } finally {
    await dispatcher.close()
  }
}
