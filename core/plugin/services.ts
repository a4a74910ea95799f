// What stages offer the gateway outside any call, for its listeners.
import type { IncomingHttpHeaders } from 'node:http'
import type { EscalationService } from '../call/escalation.js'
import type { JudgedFinding } from '../call/finding.js'
import type { Redactor } from '../call/redactor.js'
import type { Identity } from '../call/slots.js'
import type { DescribeResource } from '../http/protected-resource.js'
import { token } from './tokens.js'

/**
 * Tells who sends a request that is no call, by the same rules as a call's. A token that is meant for single servers
 * only is good where `isMeant` says so of these; without it, nowhere.
 *
 * @throws {Refusal} `UNAUTHENTICATED`, `UNAUTHORIZED_TENANT` or `STORE_UNAVAILABLE`
 */
export type Identify = (
  headers: IncomingHttpHeaders,
  isMeant?: (servers: ReadonlySet<string>) => Promise<boolean>,
) => Promise<Identity>

/** Something that happened in the gateway and is no call. */
export interface GatewayEvent {
  /** `<what>/<step>`; stands in the record as the tool of the gateway itself. */
  readonly name: string
  readonly tenant: string
  /** The trace of the call that led to it. */
  readonly traceId: string
  readonly causeSpanId: string
  readonly decision: 'allow' | 'deny'
  /** Who did it; absent: the gateway by itself. */
  readonly principal?: Identity
  readonly findings: readonly JudgedFinding[]
  readonly escalationId?: string
  /** Why it did not count. */
  readonly error?: string
  /** SHA-256 of the call's arguments. */
  readonly inputSha256?: string
}

/**
 * Resolves when the event is in the log, or where the policy goes on without.
 *
 * @throws {Refusal} `AUDIT_UNAVAILABLE`
 */
export type RecordEvent = (event: GatewayEvent) => Promise<void>

export const services = {
  identify: token<Identify>('Identify'),
  record: token<RecordEvent>('RecordEvent'),
  /** For what is written of people outside any call; absent where identities are not redacted. */
  redactor: token<Redactor>('Redactor'),
  escalations: token<EscalationService>('EscalationService'),
  describeResource: token<DescribeResource>('DescribeResource'),
} as const
