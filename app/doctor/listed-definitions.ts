// Asks targets for all that they say of themselves to models, for a lock file.
import type { PluginContext } from '@svc/core'
import { ownRequest, resultIn } from '../mcp/handshake.js'
import { type ListKind, listForms, readPages } from '../mcp/lists.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { Policy } from '../policy/config.js'
import { stdioTargetsOf } from '../stdio/targets/config.js'
import { inHttpSession, type UseSession } from './listed-tools.js'
import { inStdioSession } from './stdio-targets.js'

/** In the form of a lock file; lists that are empty are absent. */
export interface ListedDefinitions {
  readonly instructions?: readonly string[]
  readonly tools?: readonly Fields[]
  readonly prompts?: readonly Fields[]
  readonly templates?: readonly Fields[]
}

/** Rejects if the target cannot be asked, or lists more than the gateway reads. */
export async function listDefinitions(
  server: string,
  policy: Policy,
  context: PluginContext,
): Promise<ListedDefinitions> {
  const commands = stdioTargetsOf(policy.host.targets).values()
  const command = [...commands].find((one) => one.server === server)
  if (command !== undefined) return inStdioSession(server, command.target, policy, context, definitionsOf)
  const target = policy.host.targets[server]
  if (typeof target !== 'string') throw new Error('there is no such target')
  return inHttpSession(target, definitionsOf)
}

const lists = [
  ['tools', 'tools'],
  ['prompts', 'prompts'],
  ['templates', 'resourceTemplates'],
] as const satisfies readonly (readonly [keyof ListedDefinitions, ListKind])[]

const definitionsOf: UseSession<ListedDefinitions> = async (send, session, client) => {
  const { capabilities, instructions } = session
  const found: Record<string, readonly unknown[]> = {}
  if (instructions !== undefined) found['instructions'] = [instructions]
  for (const [name, kind] of lists) {
    const { method, capability } = listForms[kind]
    if (capabilities[capability] === undefined) continue
    const { entries, isCut } = await readPages(kind, async (params) => {
      const { message, headers } = ownRequest(session, client, { id: `svc-${kind}`, method, params })
      // A server may have resources without templates.
      return resultIn(await send(message, headers)) ?? {}
    })
    if (isCut) throw new Error(`its list of ${kind} is too long`)
    if (entries.length > 0) found[name] = entries
  }
  return found
}
