// Asks targets over HTTP for what they list, as `svc policy check`, `svc doctor` and `svc tools lock` need it.
import {
  type ClientFacts,
  performHandshake,
  type SendOwn,
  type ServerDescription,
  type ServerReply,
  type ServerSession,
  serverVersionIn,
} from '../mcp/handshake.js'
import { HttpServers } from '../mcp/http-servers.js'
import { toolNames } from '../mcp/lists.js'
import { createSend, createSendOwn, endSession, ownClientFacts } from '../mcp/own-requests.js'
import { gatewayImplementation } from '../mcp/protocol.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { McpServers } from '../mcp/servers.js'
import { targetOf } from '../upstream/target.js'
import { UndiciDispatcher } from '../upstream/undici.js'
import type { ListedTools } from './tool-access.js'

const timeoutMs = 3_000
const maxBytes = 4 * 1024 * 1024

/** The work that is done in a session with a server. */
export type UseSession<T> = (
  send: SendOwn<ServerReply>,
  session: ServerSession & ServerDescription,
  client: ClientFacts,
) => Promise<T>

/** Undefined if the server cannot be reached from here, is not an MCP server, or demands a credential. */
export function listHttpTools(server: string, target: string): Promise<ListedTools | undefined> {
  return listedIn(server, (use) => inHttpSession(target, use))
}

/** The same of one that `servers` reach. */
export function listToolsOver(
  servers: McpServers,
  server: string,
  target: string,
): Promise<ListedTools | undefined> {
  return listedIn(server, (use) => inSession(servers, target, use))
}

type OpenSession = (use: UseSession<ListedTools>) => Promise<ListedTools>

async function listedIn(server: string, open: OpenSession): Promise<ListedTools | undefined> {
  try {
    return await open(async (send, session, client) => {
      const names = await toolNames(send, session, client)
      return { server, version: serverVersionIn(session) ?? UNVERSIONED, names }
    })
  } catch {
    // The tools of the server are unknown.
    return undefined
  }
}

/** Uses a session of the gateway's own, without a credential. Rejects if the target accepts none, as `use` does. */
export async function inHttpSession<T>(target: string, use: UseSession<T>): Promise<T> {
  const dispatcher = new UndiciDispatcher({
    connectTimeoutMs: timeoutMs,
    headersTimeoutMs: timeoutMs,
    idleTimeoutMs: timeoutMs,
    wholeUpToBytes: maxBytes,
  })
  try {
    return await inSession(new HttpServers(dispatcher, timeoutMs, Date), target, use)
  } finally {
    await dispatcher.close()
  }
}

async function inSession<T>(servers: McpServers, target: string, use: UseSession<T>): Promise<T> {
  const signal = AbortSignal.timeout(timeoutMs)
  const client = ownClientFacts(gatewayImplementation)
  const sendOne = createSend({ servers }, targetOf(target).url, undefined, { signal })
  const send = createSendOwn(sendOne, maxBytes)
  const { session } = await performHandshake(send, client)
  if (session === undefined) throw new Error('the server accepted no handshake')
  const used = await use(send, session, client)
  await endSession(sendOne, session)
  return used
}
