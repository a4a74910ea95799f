// The names of all tools of a server, over as many pages as it has.
import type { Implementation } from '../mcp/implementation.js'
import { isFields } from '../mcp/listing.js'
import { clientMeta } from '../mcp/stateless-request.js'
import type { Connection } from './supervisor.js'

/** A server that has more pages repeats itself. */
const maxPages = 100

/** `timeoutMs` for all pages. Rejects with `UpstreamError`, or with the time-out. */
export async function listTools(
  { channel, server }: Connection,
  client: Implementation,
  timeoutMs: number,
): Promise<string[]> {
  const signal = AbortSignal.timeout(timeoutMs)
  const names: string[] = []
  let cursor: unknown
  for (let page = 0; page < maxPages; page++) {
    const params = {
      ...(cursor === undefined ? {} : { cursor }),
      ...(server.isStateless ? { _meta: clientMeta(client) } : {}),
    }
    const { result } = await channel.ask('tools/list', params, signal)
    const { tools, nextCursor } = isFields(result) ? result : {}
    for (const tool of Array.isArray(tools) ? tools : []) {
      if (isFields(tool) && typeof tool['name'] === 'string') names.push(tool['name'])
    }
    if (typeof nextCursor !== 'string') break
    cursor = nextCursor
  }
  return names
}
