// Creates the listener for operators of a gateway, with what they may ask of it.
import { type MaybePromise, resolve, tokens } from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import { Admin } from '../admin/admin.js'
import type { AdminConsole } from '../admin/session.js'
import type { ListedTools } from '../doctor/tool-access.js'
import type { SessionBinding } from '../mcp/session-binding.js'
import type { SharedState } from '../mcp/shared-state.js'
import type { AdminConfig } from '../policy/admin-config.js'
import type { HostConfig } from '../policy/config.js'
import type { StdioServers } from '../stdio/targets/servers.js'
import { gatewayOperations } from './admin-operations.js'
import type { GatewayBuilder } from './builder.js'
import type { GatewayBlocks } from './gateway-blocks.js'
import type { GatewayFacts } from './gateway-facts.js'
import type { Policies } from './policies.js'
import type { ReloadCause, ReloadedPolicy } from './reload-records.js'
import type { WorkerLink } from './worker-link.js'

interface AdministeredGateway {
  readonly builder: GatewayBuilder
  /** Called when an operator asks, and not before. */
  policies(): Policies
  servers(): StdioServers
  draining(): boolean
  /** The URL at which callers reach the gateway. */
  url(): Promise<string>
  reloadFile(cause: ReloadCause): Promise<ReloadedPolicy>
  readonly state: SharedState
  sessions(): MaybePromise<SessionBinding>
  readonly facts: GatewayFacts
  /** Set if the gateway has several processes. */
  readonly link: WorkerLink | undefined
  readonly blocking: GatewayBlocks
}

export function createAdmin(host: HostConfig, config: AdminConfig, gateway: AdministeredGateway): Admin {
  const { builder, policies, blocking, draining, state, sessions, facts, link } = gateway
  return new Admin(config, builder.bindings, {
    activePolicy: () => policies().current,
    draining,
    operations: gatewayOperations({
      container: () => policies().current.container,
      inForce: () => {
        const { policy } = policies()
        const place = builder.placeOf(policy.host)
        return { policy, place, blocks: blocking.blocks.list, blocking: blocking.blocks }
      },
      loadText: (text) => builder.policyFrom(text),
      blocking: () => blocking,
      url: () => gateway.url(),
      facts,
      listCommand: (server, address) => listCommand(gateway, server, address),
      compareOn: (tools) => policies().compareOn(tools),
      reloadFile: async (cause) => {
        const change = await gateway.reloadFile(cause)
        link?.reloadOthers()
        return change
      },
    }),
    blockOf: (caller) => blocking.blocks.refusalOf(caller),
    console: lazyConsole(builder.bindings, state, sessions),
    keyReader: (directories) => builder.keyReader(host, directories),
    metrics: link && (() => link.metrics()),
  })
}

/** Starts nothing: only a process that runs, for all callers, is asked. */
async function listCommand(
  { policies, servers, facts }: AdministeredGateway,
  server: string,
  address: string,
): Promise<ListedTools | undefined> {
  const target = policies().policy.host.targets[server]
  if (typeof target !== 'object' || target.isolate !== 'gateway') return undefined
  if (facts.stateOf(server)?.state !== 'up') return undefined
  const { listToolsOver } = await import('../doctor/listed-tools.js')
  return listToolsOver(servers(), server, address)
}

/**
 * Loads the console with its first request, as most gateways run without anybody looking at it. `binding` has the key from
 * which that of its sessions is derived, so that all workers have the same.
 */
export function lazyConsole(
  bindings: DependencyContainer,
  state: SharedState,
  binding: () => MaybePromise<SessionBinding>,
): () => Promise<AdminConsole> {
  let opened: Promise<AdminConsole> | undefined
  const open = async (): Promise<AdminConsole> => {
    const { Console } = await import('../console/console.js')
    const key = (await binding()).deriveKey('console session')
    const clock = resolve(bindings, tokens.Clock)
    const ended = state.map('console-ended', Console.endedBounds)
    return new Console({ key, clock, ended, used: state.map('console-proofs', Console.usedBounds) })
  }
  return () => {
    opened ??= open().catch((error: unknown) => {
      // The next request tries again.
      opened = undefined
      throw error
    })
    return opened
  }
}
