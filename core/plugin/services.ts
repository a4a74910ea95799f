// Services of stages for the gateway and for each other, outside calls. The plugin that has one binds its token in `create`.
// Others resolve it in `start` or later.
import type { IncomingHttpHeaders } from 'node:http'
import type { Call } from '../call/call.js'
import type { Credential } from '../call/credential.js'
import type { RecordedFinding } from '../call/finding.js'
import type { Identity } from '../call/principal.js'
import type { Redactor } from '../call/redactor.js'
import type { DescribeResource } from '../http/protected-resource.js'
import type { JsonObject } from '../json/value.js'
import type { OpenKeyValueStore } from './key-value-store.js'
import type { Narrowing } from './narrowing.js'
import { token } from './tokens.js'

/**
 * Authenticates a request that is not a call, by the rules for calls. A token for certain servers only is accepted if
 * `acceptsServers` returns true for these servers, and refused without `acceptsServers`.
 *
 * @throws {Refusal} `UNAUTHENTICATED`, `UNAUTHORIZED_TENANT` or `STORE_UNAVAILABLE`
 */
export type Identify = (
  headers: IncomingHttpHeaders,
  acceptsServers?: (servers: ReadonlySet<string>) => Promise<boolean>,
) => Promise<Identity>

/** An event in the gateway that is not a call. */
export interface GatewayEvent {
  /** `<subject>/<event>`; recorded as the tool, with the gateway as its server. */
  readonly name: string
  /** Default: the gateway's own. */
  readonly tenant?: string
  readonly traceId: string
  /** The span of the call that caused it, in the same trace; absent if no call did. */
  readonly causeSpanId?: string
  readonly decision: 'allow' | 'deny'
  /** Who caused it; absent: the gateway. */
  readonly principal?: Identity
  readonly findings: readonly RecordedFinding[]
  readonly escalationId?: string
  /** Why it had no effect. */
  readonly error?: string
  /** SHA-256 of the call's arguments. */
  readonly inputSha256?: string
  /** The facts of the event, recorded as they are; texts may contain personal data. */
  readonly facts?: JsonObject
}

/**
 * Resolves when the event is recorded, or at once if the policy continues without.
 *
 * @throws {Refusal} `AUDIT_UNAVAILABLE`
 */
export type RecordEvent = (event: GatewayEvent) => Promise<void>

/**
 * Records the settlement of a call that no longer runs through stages, because its response came after they stopped
 * waiting. `inputDigest` is as `digestOfInput` has it.
 */
export type RecordOnSettle = (call: Call, inputDigest: string) => void

/** A rule of the policy, to be shown to people. */
export interface DescribedRule {
  readonly name: string
  /** Patterns; empty for all tools. */
  readonly tools: readonly string[]
  /** In CEL; absent for a rule that always has its effect. */
  readonly condition?: string | undefined
  /** Whether the rule has its effect if the condition is not true, rather than if it is. */
  readonly isRequired: boolean
  /** `deny`, `escalate`, `confirm` or `report`. */
  readonly effect: string
  readonly message?: string | undefined
  readonly approvalSetId?: string | undefined
}

/** Callers that have rules of their own in a policy. */
export interface NamedCaller {
  readonly tenant: string
  /** `anyone` of the tenant; or one of its users, roles, service agents or agent nodes by name. */
  readonly kind: 'anyone' | 'user' | 'user_id' | 'role' | 'agent' | 'node'
  /** Empty for `anyone`. */
  readonly name: string
}

/** A tool whose definition a policy pins. */
interface LockedTool {
  readonly server: string
  readonly name: string
}

/** The part of a limit per day that today's calls have used. */
export interface LimitInUse {
  readonly tenant: string
  /** The counted name. */
  readonly key: string
  readonly used: number
  readonly limit: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
}

/** The audit log of the gateway. */
export interface AuditLog {
  /** `<name>@<version>` of the gateway, as in records. */
  readonly gateway: string
  /** The hash of the policy, as in records. */
  readonly policySha256: string | null
  /** The directory of the built-in log; undefined if code writes the records. */
  readonly dir: string | undefined
  /** How often new records are sealed, in milliseconds; null if never. */
  readonly sealIntervalMs: number | null
  /** `log_id` of its records; undefined without one. */
  logId(): string | undefined
}

/** The issuer at which users of this gateway sign in. */
export interface SignInIssuer {
  readonly issuer: string
  readonly audience: string
  /** Absent: the client registers itself. */
  readonly clientId?: string | undefined
}

/**
 * Signs claims in place of the issuer, for `svc policy test`, whose pipeline trusts the key. Claims that are not whole are
 * completed to what the policy accepts: issuer, audience, expiry.
 */
export type MakeTestToken = (claims: JsonObject, isWhole: boolean) => Promise<string>

export const services = {
  identify: token<Identify>('Identify'),
  record: token<RecordEvent>('RecordEvent'),
  recordOnSettle: token<RecordOnSettle>('RecordOnSettle'),
  auditLog: token<AuditLog>('AuditLog'),
  /** Redacts personal data outside calls; absent if identities are not redacted. */
  redactor: token<Redactor>('Redactor'),
  /** The URL of the page of an escalation, by its id; undefined without an admin listener. Bound by the host. */
  approvalPage: token<(id: string) => string | undefined>('ApprovalPage'),
  /** Absent if no stage has a store that several hosts share. */
  sharedStore: token<OpenKeyValueStore>('SharedStore'),
  /** Absent if no stage has a store that several processes share. */
  board: token<OpenKeyValueStore>('Board'),
  /** Whether the policy allows calls while the store of the board cannot be reached. */
  allowsCallsWithoutStore: token<boolean>('AllowsCallsWithoutStore'),
  /** Absent if users do not sign in: without an issuer, or if the policy says who the caller is. */
  signIn: token<SignInIssuer>('SignIn'),
  /** The patterns of tenants that the policy names. Absent if rules do not differ between tenants. */
  namedTenants: token<readonly string[]>('NamedTenants'),
  /** Absent without conditions on calls. */
  describedRules: token<readonly DescribedRule[]>('DescribedRules'),
  /** Absent if rules do not differ between callers. */
  namedCallers: token<readonly NamedCaller[]>('NamedCallers'),
  /** The tools of a lock file, which is read from the directory of the policy. Absent if the policy names none. */
  lockedTools: token<(baseDir: string) => readonly LockedTool[]>('LockedTools'),
  /** The patterns of versions that the policy allows, by server. Absent if it restricts no versions. */
  namedVersions: token<Readonly<Record<string, readonly string[]>>>('NamedVersions'),
  /** Limits per day as calls of this process last counted them. Absent if nothing counts calls. */
  limitsInUse: token<() => readonly LimitInUse[]>('LimitsInUse'),
  /**
   * The credential for the gateway's own requests to a server, such as the version probe of an MCP server; undefined if
   * the policy has none for it. Rejects with `Refusal` if it is not available. Absent if the policy has no credentials.
   */
  ownCredential: token<(server: string) => Promise<Credential | undefined>>('OwnCredential'),
  describeResource: token<DescribeResource>('DescribeResource'),
  /** Absent if tokens are not validated. */
  testToken: token<MakeTestToken>('TestToken'),
  /** Begins to learn for `svc policy suggest` what the policy has to allow. Absent if no section lists tools. */
  narrowing: token<() => Narrowing>('Narrowing'),
  /** Bound by tools that judge calls: plugins keep their stores in memory and ask nobody. */
  inMemory: token<true>('InMemory'),
} as const
