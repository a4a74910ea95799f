// The slots that built-in stages share. A plugin may make more with `slot()`.
import type { Credential } from './credential.js'
import type { EscalationStatus } from './escalation.js'
import type { Verdict } from './finding.js'
import type { Judgement } from './judgement.js'
import type { Redactor } from './redactor.js'
import type { SideEffectKnowledge } from './side-effects.js'
import { slot } from './slot.js'

/** Who is calling, as the token says. */
export interface Identity {
  readonly tenant: string
  readonly authenticated: boolean
  /** From the user claim; a token without one is a service agent. */
  readonly user?: string
  /** From the subject claim. */
  readonly userId?: string
  /** Names a service agent: the client id claim, else `azp`, `client_id`, `sub`. */
  readonly clientId?: string
  /** The token's `iss`. */
  readonly issuer?: string
  /** The token's `sub`; differs from `userId` where the policy names another subject claim. */
  readonly subject?: string
  /** The client that the token was issued to, also where it names a user: the client id claim, else `azp`, `client_id`. */
  readonly client?: string
  readonly roles: readonly string[]
  /** The node that the token itself names; `x-node-id` is only what the caller says. */
  readonly nodeId?: string
}

/** One limit that applies to a call, counted under its own key. */
export interface Limit {
  /** What the quota adapter counts under in place of the tool: `<reference>` or `<reference>#<kind>:<id>`. */
  readonly key: string
  readonly callsPerDay?: number
  readonly ratePerSec?: number
  /** Bucket size; the rate, at least 1, where not given. */
  readonly burst?: number
  /** Whose limit it is: `plan`, `tenant`, `user`, `role`, `agent`, `node`. */
  readonly level: string
}

/**
 * The URL under which callers reach this gateway, without a slash at its end; undefined where that cannot be told.
 * Filled by the HTTP layer. It may be what the caller says (`Host`), so it addresses answers and decides nothing.
 */
export const reachedAt = slot<() => string | undefined>('reachedAt')
export const identity = slot<Identity>('identity')
export const limits = slot<readonly Limit[]>('limits')
export const verdict = slot<Verdict>('verdict')
/** Filled by the stage directly inside audit; read by whoever writes of the call. */
export const redactor = slot<Redactor>('redactor')
/** Filled by brokers, read by whoever sends the call upstream. */
export const credential = slot<Credential>('credential')
/** What the policy says of which tools change something; whoever asks `isSideEffecting` passes it on. */
export const sideEffects = slot<SideEffectKnowledge>('sideEffects')
/** What became of the call's idempotency key: the first call under it, one answered from the store, one refused. */
export type Dedupe = 'first' | 'replay' | 'duplicate'

/** Filled for calls that carry an idempotency key; for their records. */
export const dedupe = slot<Dedupe>('dedupe')
/** Filled by a stage that has calls judged elsewhere, read by enforcement. */
export const judgement = slot<Judgement>('judgement')
/** The escalation that the call opened or came back with; for its record and its answer. */
export const escalation = slot<{ readonly id: string; readonly status: EscalationStatus }>('escalation')
