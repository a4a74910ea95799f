// The slots that built-in stages share (ADR 0045). A plugin may define its own with `slot()`.
import type { JsonNumber } from '../json/text.js'
import type { Credential } from './credential.js'
import type { EscalationStatus } from './escalation.js'
import type { ExternalDecision } from './external-decision.js'
import type { Verdict } from './finding.js'
import type { Identity } from './principal.js'
import type { KeptValues } from './recorded.js'
import type { SideEffectKnowledge } from './side-effects.js'
import { slot } from './slot.js'

/** A caller that the embedding program vouches for. */
export interface TrustedCaller {
  readonly identity: Identity
  readonly scopes: ReadonlySet<string>
}

/** A limit that applies to a call, with its own counter. */
export interface Limit {
  /** The key of the counter in the quota adapter: folded `<reference>` or `<reference>#<kind>:<id>`. */
  readonly key: string
  readonly callsPerDay?: number
  readonly ratePerSec?: number
  /** Bucket size; the rate, at least 1, if not given. */
  readonly burst?: number
  /** The level of the limit: `plan`, `tenant`, `user`, `role`, `agent`, `node`. */
  readonly level: string
}

/**
 * The URL under which callers reach this gateway, without a trailing slash; undefined if it is not known. Set by the
 * HTTP layer. It may come from the `Host` header, so it may be used for links in responses and not for decisions.
 */
export const publicBaseUrl = slot<() => string | undefined>('publicBaseUrl')

/** The endpoint of several servers that the caller used, as an OAuth resource (RFC 8707). */
export interface RequestedResource {
  /** The path of its URL, below the URL of the gateway. */
  readonly path: string
  /** The names of its servers. */
  readonly servers: readonly string[]
}

/** Set by the HTTP layer if the caller did not use the endpoint of the call's server. */
export const requestedResource = slot<RequestedResource>('requestedResource')
export const identity = slot<Identity>('identity')
/** Set by a program that embeds the pipeline and has authenticated the caller: authn takes it in place of a token. */
export const trustedCaller = slot<TrustedCaller>('trustedCaller')
export const limits = slot<readonly Limit[]>('limits')
export const verdict = slot<Verdict>('verdict')
/** Set by brokers, read by the dispatchers. */
export const credential = slot<Credential>('credential')
/** The policy's rules on side effects, for callers of `isSideEffecting`. */
export const sideEffects = slot<SideEffectKnowledge>('sideEffects')
/** The state of the call's idempotency key: the first call with it, a replayed response, or a refused duplicate. */
export type IdempotencyState = 'first' | 'replay' | 'duplicate'

/** Set for calls with an idempotency key; their records contain it. */
export const idempotency = slot<IdempotencyState>('idempotency')
/** Set by a stage that asks an external evaluator, read by enforcement. */
export const externalDecision = slot<ExternalDecision>('externalDecision')
/** The escalation that the call opened or refers to, for its record and its response. */
export const escalation = slot<{ readonly id: string; readonly status: EscalationStatus }>('escalation')

/** Forms that the client can show the person who uses it. */
export interface ClientForms {
  readonly isOffered: boolean
  /** The reply to the form whose text has this hash; `none` if nobody replied in time. */
  readonly reply?: {
    readonly sha256: string
    readonly action: 'accept' | 'decline' | 'cancel' | 'none'
  }
  /** The escalation about which they were asked; the caller did not name it. */
  readonly asked?: string
  /** The escalation whose page the person did not want to open: they do not want the call. */
  readonly declined?: string
}

/** Set by the transport. */
export const clientForms = slot<() => ClientForms>('clientForms')

/** The mandates of the call that a stage has verified. */
export interface MandateReport {
  /** The mandates as the record shows them; null if the call presented no valid mandate. */
  readonly record: Readonly<Record<string, unknown>> | null
  /** Headers for the upstream, by name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Members of `params._meta` that do not go upstream over MCP, as they were not verified. */
  readonly withheldMeta: readonly string[]
}

/** The pattern that allows or denies the call's reference. Read by the record. */
export const decidingPattern = slot<string>('decidingPattern')
/** Read by the record. */
export const kept = slot<KeptValues>('kept')
/** Labels for the response, given by a stage that judges the request. */
export const callLabels = slot<readonly string[]>('callLabels')
/** Read by the record and by the dispatchers. */
export const mandates = slot<MandateReport>('mandates')

/** The facts about an exchange over MCP, as the client knows it. */
export interface McpFacts {
  readonly revision?: string | undefined
  readonly sessionId?: string | undefined
  /** The server's own id of the session, once the request was read. */
  readonly serverSessionId?: string | undefined
  readonly taskId?: string | undefined
  /** The id of the JSON-RPC request. */
  readonly rpcId?: string | number | JsonNumber | undefined
}

/** Set by a stage that changes the call's response: another stream, which the stage does not see, must not carry it. */
export const responseChange = slot<true>('responseChange', { isShared: true })
/** SHA-256, hex, of the response as it was received, if a stage changed it: as `output_sha256` is of the delivered one. */
export const receivedDigest = slot<string | null>('receivedDigest', { isShared: true })
/** Milliseconds left for the response, if the policy denies a later one; set by the stage that limits the time. */
export const responseTimeLeft = slot<() => number | undefined>('responseTimeLeft')

/** Set by the transport; called when the call settles. */
export const mcpFacts = slot<() => McpFacts>('mcpFacts')
