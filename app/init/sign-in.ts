// Asks an MCP server over HTTP whether it wants a sign-in, which only the client itself can do.
import { messageOf } from '@svc/core/json'

const timeoutMs = 5_000

/** Why the entry has to stay as it is; undefined if the server needs no sign-in. */
export async function whyUnreachable(url: string): Promise<string | undefined> {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'svc-init', version: '1.0.0' },
  }
  try {
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    await response.body?.cancel()
    if (response.status === 401 || response.status === 403)
      return 'its server wants a sign-in, which the client does'
    return response.ok ? undefined : `its server responds with ${response.status}`
  } catch (error) {
    return `its server does not respond: ${messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error)}`
  }
}
