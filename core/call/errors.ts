// The table of error codes, for the HTTP layer, the MCP endpoint, the records and
// docs/reference/errors.md.

import { brand, hasBrand } from './contract.js'

export interface Denial {
  /** The level of the rule: `gateway`, `tenant`, `plan`, `user`, `role`, `agent`, `node`. */
  readonly level?: string
  /** The section whose stage found it. */
  readonly type?: string
  /** The reason token. */
  readonly reason?: string
  /** The counter of the limit that is used up; recorded, and not shown to the caller. */
  readonly limit?: string
}

interface ErrorEntry {
  /** HTTP status; the upstream's own status if `UPSTREAM` passes a response on. */
  readonly status: number
  readonly when: string
}

/** @public Read by `npm run docs`. */
export const errorTable = {
  BAD_REQUEST: { status: 400, when: 'The request is not JSON, not an object, or has a bad header or path.' },
  UNAUTHENTICATED: {
    status: 401,
    when: 'The bearer token is missing, expired, malformed or wrongly signed.',
  },
  UNAUTHORIZED_TENANT: {
    status: 401,
    when: '`x-tenant` and the token differ, or the token has no tenant.',
  },
  TOOL_NOT_ALLOWED: {
    status: 403,
    when: 'Enforcement denied the call; `denial_reason` is the reason token.',
  },
  ESCALATION_PENDING: {
    status: 403,
    when: 'The call needs an approval; `escalation_id` is the id of the escalation.',
  },
  ESCALATION_REJECTED: { status: 403, when: 'The call was rejected.' },
  CONFIRMATION_REQUIRED: {
    status: 403,
    when: 'The person at the client has to confirm the call in a form, and has not.',
  },
  TARGET_NOT_FOUND: { status: 404, when: 'No such server in `targets`, or no such path.' },
  METHOD_NOT_ALLOWED: { status: 405, when: 'The path has other HTTP methods; `Allow` lists them.' },
  IDEMPOTENT_DUPLICATE: {
    status: 409,
    when: 'A call with this idempotency key is in flight, or the policy rejects duplicates.',
  },
  IDEMPOTENT_OUTCOME_UNKNOWN: {
    status: 409,
    when: 'An earlier call with this idempotency key may or may not have run.',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    when: "The finding `payload_too_large` denies, or the request or the response is over a hard cap of the server's. With `sent: true` it was the response: the call has run.",
  },
  IDEMPOTENCY_KEY_REUSED: { status: 422, when: 'The idempotency key was used with other arguments.' },
  RATE_LIMITED: {
    status: 429,
    when: 'The token bucket is empty, or the tenant has as many calls in flight or idempotency keys as it may have. On the admin listener: too many tokens of the address wait to be checked.',
  },
  QUOTA_EXCEEDED: { status: 429, when: 'The daily limit is reached.' },
  UPSTREAM: {
    status: 502,
    when: 'The upstream responded with 4xx or 5xx; its status and body are returned.',
  },
  BROKER_UNAVAILABLE: {
    status: 502,
    when: 'The upstream credential is not available; nothing was sent.',
  },
  UPSTREAM_UNREACHABLE: {
    status: 502,
    when: 'The upstream could not be reached or broke the protocol.',
  },
  STORE_UNAVAILABLE: { status: 503, when: 'A required store is down; nothing was sent.' },
  AUDIT_UNAVAILABLE: { status: 503, when: 'The audit log cannot be written; nothing was sent.' },
  RUNTIME_UNAVAILABLE: { status: 503, when: 'The remote runtime is not available; nothing was sent.' },
  DRAINING: { status: 503, when: 'The gateway is shutting down; nothing was sent.' },
  DURATION_EXCEEDED: {
    status: 504,
    when: 'The finding `duration_too_long` denies: the upstream request was aborted and may have run.',
  },
  CANCELLED: {
    status: 499,
    when: 'The caller cancelled the call or left before its response; it may have run. Only in records.',
  },
  OUTCOME_UNKNOWN: {
    status: 502,
    when: 'The response broke off, and the caller may resume it; or the gateway died before its record. Only in records.',
  },
  OUTCOME_UNRECORDED: {
    status: 500,
    when: 'The upstream responded but the record could not be made durable; the response is withheld.',
  },
  INTERNAL: { status: 500, when: 'An internal error of the gateway; the message has no details.' },
} as const satisfies Record<string, ErrorEntry>

export type ErrorCode = keyof typeof errorTable

export function statusOf(code: ErrorCode): number {
  return errorTable[code].status
}

/** The decision of a policy that a refusal states. */
export function decisionOfRefusal(code: ErrorCode): 'deny' | 'confirm' | 'escalate' {
  if (code === 'ESCALATION_PENDING') return 'escalate'
  return code === 'CONFIRMATION_REQUIRED' ? 'confirm' : 'deny'
}

/**
 * A refusal thrown by a function that returns a value, such as `call.request()`. The pipeline turns it into a `Denied`
 * outcome; any other error is an internal error.
 */
export class Refusal extends Error {
  readonly [brand] = 'Refusal'
  override readonly name = 'Refusal'
  /** Seconds after which the client may try again; undefined if that is not known. */
  readonly retryAfterSec: number | undefined
  /** The rule that denies, if it is one. */
  readonly denial: Denial | undefined

  constructor(
    readonly code: ErrorCode,
    message: string,
    options: ErrorOptions & { readonly retryAfterSec?: number; readonly denial?: Denial | undefined } = {},
  ) {
    super(message, options)
    this.retryAfterSec = options.retryAfterSec
    this.denial = options.denial
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(errorTable, value)
}

/** Whether `value` is a `Refusal`, of any copy of this package. */
export function isRefusal(value: unknown): value is Refusal {
  return hasBrand(value, 'Refusal')
}
