// Lists the tools of HTTP targets, as `svc policy check` and `svc doctor` need them.
import { performHandshake, serverVersionIn } from '../mcp/handshake.js'
import { HttpServers } from '../mcp/http-servers.js'
import { gatewayImplementation } from '../mcp/implementation.js'
import { toolNames } from '../mcp/list-pages.js'
import { createSend, createSendOwn, endSession, ownClientFacts } from '../mcp/own-requests.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import { targetOf } from '../upstream/target.js'
import { UndiciDispatcher } from '../upstream/undici.js'
import type { ListedTools } from './tool-access.js'

const timeoutMs = 3_000
const maxBytes = 4 * 1024 * 1024

/** Undefined if the server cannot be reached from here, is not an MCP server, or demands a credential. */
export async function listHttpTools(server: string, target: string): Promise<ListedTools | undefined> {
  try {
    return await toolsOf(server, targetOf(target).url)
  } catch {
    // The tools of the server are unknown.
    return undefined
  }
}

async function toolsOf(server: string, url: URL): Promise<ListedTools> {
  const dispatcher = new UndiciDispatcher({
    connectTimeoutMs: timeoutMs,
    headersTimeoutMs: timeoutMs,
    idleTimeoutMs: timeoutMs,
    wholeUpToBytes: maxBytes,
  })
  const signal = AbortSignal.timeout(timeoutMs)
  const client = ownClientFacts(gatewayImplementation)
  const servers = new HttpServers(dispatcher, timeoutMs)
  const sendOne = createSend({ servers }, url, undefined, { signal })
  const send = createSendOwn(sendOne, maxBytes)
  try {
    const { session } = await performHandshake(send, client)
    if (session === undefined) throw new Error('the server accepted no handshake')
    const names = await toolNames(send, session, client)
    await endSession(sendOne, session)
    return { server, version: serverVersionIn(session) ?? UNVERSIONED, names }
  } finally {
    await dispatcher.close()
  }
}
