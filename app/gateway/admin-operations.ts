// The operations of the admin API that a gateway has, without those that each listener has.
import type { DependencyContainer } from 'tsyringe'
import type { Operation } from '../admin/operation.js'
import { ActivityReader, activityOperation } from '../console/activity-operation.js'
import { callOperations } from '../console/calls/operations.js'
import { showCall } from '../console/calls/show-call.js'
import { eventsOperation } from '../console/events/operation.js'
import { healthOperation } from '../console/health-operation.js'
import { type PolicyInForce, policyOperations } from '../console/policy-operations.js'
import { clientsOperation, serversOperation } from '../console/server-operations.js'
import { statusOperation } from '../console/status-operation.js'
import { escalationOperations } from '../escalations/operations.js'
import { logOperations } from '../log/operations.js'
import type { ProcessState } from '../stdio-targets/server-pool.js'
import { definitionOperations, reloadOperation, shadowOperation } from './operations.js'
import type { ReloadCause, ReloadedPolicy } from './reload-records.js'

export interface OperatedGateway {
  /** The bindings of the policy in force. */
  container(): DependencyContainer
  inForce(): PolicyInForce
  /** Where callers reach it. */
  url(): Promise<string>
  /** What the processes of a target do; undefined for targets that are not commands. */
  stateOf(server: string): ProcessState | undefined
  /** Undefined if the policy in force names no shadow policy. */
  shadowStatus(): Promise<object | undefined>
  reloadFile(cause: ReloadCause): Promise<ReloadedPolicy>
}

/** `gateway` is used when an operation runs, and not before. */
export function gatewayOperations(gateway: OperatedGateway): Operation[] {
  const activity = new ActivityReader()
  return [
    ...escalationOperations,
    ...logOperations,
    activityOperation(activity),
    ...policyOperations(() => gateway.inForce(), activity),
    healthOperation,
    serversOperation(gateway),
    clientsOperation(gateway),
    ...callOperations(() => gateway.url()),
    showCall,
    eventsOperation,
    statusOperation,
    reloadOperation((cause) => gateway.reloadFile(cause)),
    shadowOperation(() => gateway.shadowStatus()),
    ...definitionOperations(() => gateway.container()),
  ]
}
