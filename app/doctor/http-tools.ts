// Lists the tools of an MCP server over HTTP, without credentials, for commands.

import { performHandshake, serverVersionIn } from '../mcp/handshake.js'
import { HttpServers } from '../mcp/http-servers.js'
import { gatewayImplementation } from '../mcp/implementation.js'
import { toolNames } from '../mcp/list-pages.js'
import { ownClientFacts, sendingOwn, uncounted } from '../mcp/own-requests.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import { UndiciDispatcher } from '../upstream/undici.js'
import type { ListedTools } from './tool-access.js'

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
  const client = ownClientFacts(gatewayImplementation)
  const servers = new HttpServers(dispatcher)
  const send = sendingOwn((head) => servers.send(url, { ...head, signal }, uncounted), maxBytes)
  try {
    const { session } = await performHandshake(send, client)
    if (session === undefined) throw new Error('the server accepted no handshake')
    const names = await toolNames(send, session, client)
    return { server, version: serverVersionIn(session) ?? UNVERSIONED, names }
  } finally {
    await dispatcher.close()
  }
}
