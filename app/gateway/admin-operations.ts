// The operations of the admin API that a gateway has, without those that each listener has.
import { resolve, tokens } from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import { blockOperations } from '../admin/block-operations.js'
import type { Operation } from '../admin/operation.js'
import { ActivityReader, activityOperation } from '../console/activity-operation.js'
import { callOperations } from '../console/calls/operations.js'
import { showCall } from '../console/calls/show-call.js'
import { eventsOperation } from '../console/events/operation.js'
import { healthOperation } from '../console/health-operation.js'
import { policyOperations, type ReadServers } from '../console/policy-operations.js'
import { clientsOperation, serversOperation } from '../console/server-operations.js'
import type { PolicyInForce } from '../console/server-tools.js'
import { ServerTools } from '../console/server-tools.js'
import { statusOperation } from '../console/status-operation.js'
import { switchOperations } from '../console/switch-operations.js'
import { unmatchedBlock } from '../console/unmatched-block.js'
import type { ListedTools } from '../doctor/tool-access.js'
import { escalationOperations } from '../escalations/operations.js'
import { passkeyOperations } from '../escalations/passkey-operations.js'
import { logOperations } from '../log/operations.js'
import type { Policy } from '../policy/config.js'
import type { KnownTool } from '../policy-tools/diff/known-calls.js'
import type { GatewayBlocks } from './gateway-blocks.js'
import type { GatewayFacts } from './gateway-facts.js'
import { definitionOperations, reloadOperation, shadowOperation } from './operations.js'
import type { ReloadCause, ReloadedPolicy } from './reload-records.js'

export interface OperatedGateway {
  /** The bindings of the policy in force. */
  container(): DependencyContainer
  inForce(): PolicyInForce
  /** Another policy. */
  loadText(text: string): Promise<Policy>
  blocking(): GatewayBlocks
  /** The URL at which callers reach the gateway. */
  url(): Promise<string>
  /** The tools that a command lists; undefined if it does not run for all callers. */
  listCommand(server: string, address: string): Promise<ListedTools | undefined>
  readonly facts: GatewayFacts
  /** A reload compares policies on these tools too. */
  compareOn(tools: () => readonly KnownTool[]): void
  reloadFile(cause: ReloadCause): Promise<ReloadedPolicy>
}

/** `gateway` is used when an operation runs, and not before. */
export function gatewayOperations(gateway: OperatedGateway): Operation[] {
  const activity = new ActivityReader()
  let tools: ServerTools | undefined
  const knownServers: ReadServers = async (request) => {
    tools ??= new ServerTools({
      clock: resolve(request.policy.container, tokens.Clock),
      inForce: () => gateway.inForce(),
      listCommand: (server, address) => gateway.listCommand(server, address),
    })
    gateway.compareOn(() => tools?.known ?? [])
    return tools.of(await activity.routes(request))
  }
  return [
    ...escalationOperations,
    ...passkeyOperations,
    ...logOperations,
    activityOperation(activity),
    ...policyOperations(() => gateway.inForce(), knownServers),
    ...blockOperations(
      () => gateway.blocking(),
      (block, request) =>
        unmatchedBlock(block, request, {
          inForce: () => gateway.inForce(),
          serversOf: knownServers,
          activity,
        }),
    ),
    ...switchOperations({
      inForce: () => gateway.inForce(),
      blocking: () => gateway.blocking(),
      loadText: (text) => gateway.loadText(text),
      serversOf: knownServers,
    }),
    healthOperation(gateway.facts),
    serversOperation(gateway),
    clientsOperation(gateway),
    ...callOperations(() => gateway.url(), knownServers),
    showCall(gateway.facts),
    eventsOperation,
    statusOperation,
    reloadOperation((cause) => gateway.reloadFile(cause)),
    shadowOperation(() => gateway.facts.shadow()),
    ...definitionOperations(() => gateway.container()),
  ]
}
