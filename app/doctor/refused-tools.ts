// Finds for `svc policy check` the tools of reachable servers that the policy refuses to every caller, so that a pattern
// that omits a tool is found before the first call.
import { type ConfigConflict, type PluginContext, policyTokens, resolveOptional } from '@svc/core'
import type { EffectivePolicy } from '@svc/core/policy'
import { performHandshake, serverVersionIn } from '../mcp/handshake.js'
import { HttpServers } from '../mcp/http-servers.js'
import { gatewayImplementation } from '../mcp/implementation.js'
import { toolNames } from '../mcp/list-pages.js'
import { createSend, createSendOwn, ownClientFacts } from '../mcp/own-requests.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { HostConfig } from '../policy/config.js'
import { targetOf } from '../upstream/target.js'
import { UndiciDispatcher } from '../upstream/undici.js'
import { type ListedTools, refusalsOf } from './tool-access.js'

/** Time limit for each server; all are asked at the same time. */
const timeoutMs = 3_000
const maxShown = 50

/** Warnings. Servers that cannot be listed are left out, and so are commands, which are not started for a check. */
export async function refusedTools(
  policy: EffectivePolicy<HostConfig>,
  context: PluginContext,
): Promise<ConfigConflict[]> {
  if (resolveOptional(context.container, policyTokens.refusesTools) !== true) return []
  const listed = await Promise.all(
    Object.entries(policy.host.targets).map(([server, target]) =>
      typeof target === 'string' ? listedBy(server, target) : undefined,
    ),
  )
  const found = await Promise.all(
    listed.map((tools) => (tools === undefined ? [] : warningsOn(tools, policy, context))),
  )
  return found.flat()
}

async function listedBy(server: string, target: string): Promise<ListedTools | undefined> {
  try {
    return await listHttpTools(server, targetOf(target).url, timeoutMs)
  } catch {
    // The server is not reachable from here, or not an MCP server, so its tools are unknown.
    return undefined
  }
}

async function warningsOn(
  tools: ListedTools,
  policy: EffectivePolicy<HostConfig>,
  context: PluginContext,
): Promise<ConfigConflict[]> {
  const refusals = await refusalsOf(tools, policy, context)
  return [...new Set(refusals.map(({ reason }) => reason))].map((reason) => {
    const names = refusals.flatMap((refusal) => (refusal.reason === reason ? [refusal.tool] : []))
    const more = names.length > maxShown ? ` and ${names.length - maxShown} more` : ''
    return {
      path: ['targets', tools.server],
      message: `the server lists tools that are refused with ${reason}: ${names.slice(0, maxShown).join(', ')}${more}`,
      severity: 'warning',
    }
  })
}

const maxBytes = 4 * 1024 * 1024

/** Rejects if the server cannot be reached within `timeoutMs`, is not an MCP server, or demands a credential. */
async function listHttpTools(server: string, url: URL, timeoutMs: number): Promise<ListedTools> {
  const dispatcher = new UndiciDispatcher({
    connectTimeoutMs: timeoutMs,
    headersTimeoutMs: timeoutMs,
    idleTimeoutMs: timeoutMs,
    wholeUpToBytes: maxBytes,
  })
  const signal = AbortSignal.timeout(timeoutMs)
  const client = ownClientFacts(gatewayImplementation)
  const servers = new HttpServers(dispatcher, timeoutMs)
  const send = createSendOwn(createSend({ servers }, url, undefined, { signal }), maxBytes)
  try {
    const { session } = await performHandshake(send, client)
    if (session === undefined) throw new Error('the server accepted no handshake')
    const names = await toolNames(send, session, client)
    return { server, version: serverVersionIn(session) ?? UNVERSIONED, names }
  } finally {
    await dispatcher.close()
  }
}
