// Checks of `svc doctor` on targets that are commands: starts each, lists its tools, and says who may use which of
// them.
import { type DoctorCheck, type PluginContext, resolve, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { KeyReader } from '@svc/core/secret'
import { serverVersionIn } from '../mcp/handshake.js'
import { toolNames } from '../mcp/lists.js'
import { ownClientFacts } from '../mcp/own-requests.js'
import { gatewayImplementation } from '../mcp/protocol.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { Policy } from '../policy/config.js'
import { type StdioTarget, stdioTargetsOf } from '../stdio/targets/config.js'
import { StdioEndpoint } from '../stdio/targets/endpoint.js'
import { Launcher } from '../stdio/targets/launcher.js'
import type { UseSession } from './listed-tools.js'
import { accessTo, type ListedTools } from './tool-access.js'

/** Time for listing the tools, beside the start of the server. */
const listMs = 10_000

/** Adds to `listed` the tools of each server. */
export function stdioChecks(policy: Policy, context: PluginContext, listed: ListedTools[]): SectionChecks[] {
  return [...stdioTargetsOf(policy.host.targets).values()].map(({ server, target }) => ({
    section: 'targets',
    timeoutMs: target.start_timeout_ms + listMs,
    run: () => checkStdio(server, target, policy, context, listed),
  }))
}

async function checkStdio(
  name: string,
  target: StdioTarget,
  policy: Policy,
  context: PluginContext,
  listed: ListedTools[],
): Promise<DoctorCheck[]> {
  try {
    const { version, names, revision } = await inStdioSession(
      name,
      target,
      policy,
      context,
      async (send, server, client) => ({
        version: serverVersionIn(server) ?? UNVERSIONED,
        names: await toolNames(send, server, client),
        revision: server.revision,
      }),
    )
    const started = `the server "${name}" starts: version ${version}, revision ${revision}, ${toolsIn(names)}`
    const tools = { server: name, version, names }
    listed.push(tools)
    const access = await checkTools(tools, policy, context)
    return [{ severity: 'ok', message: started }, ...access]
  } catch (error) {
    const hint = 'run the command in a terminal to see what it prints; it must speak MCP over stdio'
    const reason = error instanceof Error && error.cause !== undefined ? `: ${messageOf(error.cause)}` : ''
    return [{ severity: 'error', message: `${messageOf(error).replace(/\.$/, '')}${reason}`, hint }]
  }
}

/** Starts the command for one session of the gateway's own. Rejects if it does not start, and as `use` does. */
export async function inStdioSession<T>(
  name: string,
  target: StdioTarget,
  policy: Policy,
  context: PluginContext,
  use: UseSession<T>,
): Promise<T> {
  const { baseDir } = context
  const endpoint = new StdioEndpoint({
    name,
    target,
    clock: resolve(context.container, tokens.Clock),
    logger: resolve(context.container, tokens.Logger),
    client: gatewayImplementation,
    maxMessageBytes: policy.host.server.maxResponseBytes,
    responseTimeoutMs: listMs,
    launcher: new Launcher(target, {
      baseDir,
      keys: new KeyReader(context),
      substituted: policy.hostSecrets,
    }),
  })
  try {
    const { channel, server } = await endpoint.connection()
    return await use(
      channel.sendingOwn(AbortSignal.timeout(listMs)),
      server,
      ownClientFacts(gatewayImplementation),
    )
  } finally {
    await endpoint.close()
  }
}

/** The callers that may use each tool. */
export async function checkTools(
  tools: ListedTools,
  policy: Policy,
  context: PluginContext,
): Promise<DoctorCheck[]> {
  const { server, names } = tools
  const access = await accessTo(tools, policy, context)
  const nobody = `no caller may use a tool of "${server}"`
  const hint = 'allow tools to a tenant or plan, and callers by authn'
  return [
    ...access.map(({ who, usable }): DoctorCheck => {
      const which = usable.length === names.length ? 'all its tools' : toolsIn(usable)
      return { severity: 'ok', message: `${who} may use of "${server}": ${which}` }
    }),
    ...(names.length > 0 && access.every(({ usable }) => usable.length === 0)
      ? [{ severity: 'warning' as const, message: nobody, hint }]
      : []),
  ]
}

function toolsIn(names: readonly string[]): string {
  if (names.length === 0) return 'no tool'
  return `${names.length} ${names.length === 1 ? 'tool' : 'tools'}: ${names.join(', ')}`
}

/** The checks of a section. */
export interface SectionChecks {
  readonly section: string
  /** Time limit; default: that of the doctor. */
  readonly timeoutMs?: number
  run(): Promise<readonly DoctorCheck[]>
}
