// The names of all tools of a server, over as many pages as it has.
import { isJsonObject } from '@svc/core/json'
import type { Implementation } from '../mcp/implementation.js'
import { readPages } from '../mcp/list-pages.js'
import { clientMeta } from '../mcp/stateless-request.js'
import type { Connection } from './supervisor.js'

/** `timeoutMs` for all pages. Rejects with `UpstreamError`, or with the time-out. */
export async function listTools(
  { channel, server }: Connection,
  client: Implementation,
  timeoutMs: number,
): Promise<string[]> {
  const signal = AbortSignal.timeout(timeoutMs)
  const meta = server.isStateless ? { _meta: clientMeta(client) } : {}
  const { entries } = await readPages('tools', async (params) => {
    const { result } = await channel.ask('tools/list', { ...params, ...meta }, signal)
    return isJsonObject(result) ? result : {}
  })
  return entries.flatMap(({ name }) => (typeof name === 'string' ? [name] : []))
}
