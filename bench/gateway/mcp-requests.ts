// The same call over MCP: `tools/call` without a session, and in sessions.
import { ARGUMENTS, requestOf, SERVER, TOOL } from './requests.js'

const PATH = `/mcp/${SERVER}`
const STATELESS = '2026-07-28'
const WITH_SESSION = '2025-11-25'
const CLIENT = { name: 'agent', version: '1.0' }
const ACCEPT = 'application/json, text/event-stream'

/** The requests of each revision. There are `sessions` sessions, as a session may run only one request of an id at a time. */
export async function mcpRequestsFor(
  port: number,
  tokens: readonly string[],
  sessions: number,
): Promise<Readonly<Record<string, readonly string[]>>> {
  return {
    [STATELESS]: tokens.map((token) => statelessCall(port, token)),
    [WITH_SESSION]: await Promise.all(
      Array.from({ length: sessions }, (_, i) => callInSession(port, tokens[i % tokens.length] ?? '')),
    ),
  }
}

function statelessCall(port: number, token: string): string {
  const headers = {
    accept: ACCEPT,
    'mcp-protocol-version': STATELESS,
    'mcp-method': 'tools/call',
    'mcp-name': TOOL,
  }
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': STATELESS,
    'io.modelcontextprotocol/clientInfo': CLIENT,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  return requestOf(port, { path: PATH, token, headers, body: toolCall({ _meta }) })
}

async function callInSession(port: number, token: string): Promise<string> {
  const headers = {
    accept: ACCEPT,
    'mcp-protocol-version': WITH_SESSION,
    'mcp-session-id': await openSession(port, token),
  }
  return requestOf(port, { path: PATH, token, headers, body: toolCall({}) })
}

function toolCall(more: object): object {
  return {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: TOOL, arguments: ARGUMENTS, ...more },
  }
}

/** Returns its id. */
export async function openSession(port: number, token: string): Promise<string> {
  const params = { protocolVersion: WITH_SESSION, capabilities: {}, clientInfo: CLIENT }
  const response = await fetch(`http://127.0.0.1:${port}${PATH}`, {
    method: 'POST',
    headers: { accept: ACCEPT, 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }),
  })
  const text = await response.text()
  const session = response.headers.get('mcp-session-id')
  if (session === null) throw new Error(`no session was opened: ${response.status} ${text}`)
  return session
}

export async function endSession(port: number, token: string, session: string): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'mcp-session-id': session }
  const response = await fetch(`http://127.0.0.1:${port}${PATH}`, { method: 'DELETE', headers })
  await response.body?.cancel()
  if (!response.ok) throw new Error(`a session did not end: ${response.status}`)
}
