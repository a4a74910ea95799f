// A call that escalates: its caller's headers, and the fingerprint that ties an approval to it.
import {
  type Call,
  type CallRequest,
  type FindingList,
  type Identity,
  principalKeyOf,
  Refusal,
  servedDefinition,
} from '@svc/core'
import { canonicalize, defined, sha256Hex } from '@svc/core/json'

/** Maximum length of an id, or of the reason for an emergency, in characters. */
const MAX_TEXT = 200

/** A call with the data that reviewers decide about. */
export interface EscalatedCall {
  readonly call: Call
  readonly request: CallRequest
  readonly caller: Identity
  readonly fingerprint: string
  /** The input that the fingerprint is of: what reviewers decide about. */
  readonly input: string
  readonly findings: FindingList
  readonly reasons: readonly string[]
  /** The findings that an approval has to cover, as `coverageOf` writes them. */
  readonly wanted: readonly string[]
  /** The approval set that has to approve. */
  readonly setId: string | undefined
  /** Hash of the idempotency key. */
  readonly key: string | null
  /** The caller's reason to run the call before it is approved, if the caller's roles allow that. */
  readonly emergency: string | undefined
}

/** The text in a header of the caller. */
export function textOfHeader({ headers }: Call, name: string): string | undefined {
  const text = headers[name]
  if (text === undefined) return undefined
  if (typeof text !== 'string' || text.trim() === '' || text.length > MAX_TEXT) {
    throw new Refusal('BAD_REQUEST', `${name}: expected 1 to ${MAX_TEXT} characters.`)
  }
  return text
}

/** The reason, as the caller states it. */
export function emergencyOf(call: Call, { emergency }: CallRequest): string | undefined {
  return (emergency ?? textOfHeader(call, 'x-escalation-emergency'))?.toWellFormed()
}

/** The wait that the caller asks for, in milliseconds; 0 without one. */
export function waitOf({ headers }: Call, maxMs: number): number {
  const wanted = headers['x-escalation-wait']
  if (wanted === undefined) return 0
  if (typeof wanted !== 'string' || !/^\d{1,9}$/.test(wanted)) {
    throw new Refusal('BAD_REQUEST', 'x-escalation-wait: expected a whole number of seconds.')
  }
  return Math.min(Number(wanted) * 1000, maxMs)
}

/**
 * Identifies a call, so that an approval lets the same call through and no other: SHA-256, hex, over the canonical JSON
 * (RFC 8785) of principal, server, tool and input, and of the MCP method if the reference does not determine it: a
 * prompt or a resource can be read, completed or subscribed to. A tool is called over either protocol. `input` is
 * canonical already, and the members stand in the order of their names. Each approval set that a rule names has
 * escalations of its own. A definition that the caller was served since is another call, too.
 */
export function fingerprintOf(
  call: Call,
  request: CallRequest,
  caller: Identity,
  input: string,
  setId: string | undefined,
): string {
  const { kind, method, server, reference } = request
  const definition = call.get(servedDefinition)?.sha256 ?? null
  const rest = canonicalize({
    ...(definition === null ? {} : { definition }),
    ...(kind === 'tool' ? {} : { method }),
    principal: principalKeyOf(caller),
    server,
    ...defined({ set: setId }),
    tool: reference,
  })
  return sha256Hex(`{"args":${input},${rest.slice(1)}`)
}
