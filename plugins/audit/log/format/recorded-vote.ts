// Reads from the record of a vote on an approval what a passkey has signed. An attacker with the key of the log can sign
// another vote, but not with the reviewer's passkey.

import { isJsonObject } from '@svc/core/json/portable'
import type { PasskeyAssertion, SignedVote } from '@svc/core/passkey'

type Json = Readonly<Record<string, unknown>>

export interface ClaimedProof {
  readonly vote: SignedVote
  readonly assertion: PasskeyAssertion
  /** The time of the record, in milliseconds since the epoch. */
  readonly at: number
  /** The roles of the reviewer. */
  readonly roles: readonly string[]
}

/** The reviewer of a vote without a user. */
export const ADMIN = 'the admin token'

export function isVote({ tool }: Json): boolean {
  return tool === 'escalations/vote@1'
}

/** The proof that the vote claims to have, or why it cannot be one; undefined if it claims none. */
export function claimedProof(record: Json): ClaimedProof | { readonly error: string } | undefined {
  const { event } = record
  if (!isJsonObject(event)) return undefined
  const { passkey, proof, vote, comment = null, reviewer, fingerprint } = event
  const isLate = record['error'] !== undefined && record['error'] !== null
  if (isLate !== (proof === 'late')) return { error: 'the vote came too late, or it did not' }
  if (passkey === undefined && proof !== 'passkey') return undefined
  if (!isJsonObject(passkey) || proof !== 'passkey')
    return { error: 'the vote and its passkey do not belong together' }
  const { nonce, ...assertion } = passkey
  if (!isSaidOf(record, { vote, comment, reviewer }))
    return { error: 'the record says something else than its vote' }
  const { escalation_id: escalation, input_sha256, log_id = null, ts, principal } = record
  const signed = { escalation, fingerprint, input_sha256, vote, comment, reviewer, log_id, nonce }
  if (!isSignedVote(signed) || !isAssertion(assertion)) return { error: 'members of the vote are missing' }
  const roles = isJsonObject(principal) ? (principal['roles'] ?? []) : []
  if (!areTexts(roles)) return { error: 'the roles are not a list of names' }
  return { vote: signed, assertion, at: Date.parse(String(ts).replace(',', '.')), roles }
}

/** Whether decision, details and person of the record are those of the vote. */
function isSaidOf({ policy, findings, principal }: Json, { vote, comment, reviewer }: Json): boolean {
  if (!isJsonObject(policy) || policy['decision'] !== (vote === 'approve' ? 'allow' : 'deny')) return false
  const user = isJsonObject(principal) ? principal['user'] : undefined
  const isOfUser =
    user === undefined
      ? reviewer === ADMIN
      : typeof reviewer === 'string' && typeof user === 'string' && reviewer.startsWith(`${user} of `)
  const by = user === undefined ? ` by ${ADMIN}` : ''
  const detail = `${vote}${by}${comment === null ? '' : `: ${comment}`}`
  const all: unknown[] = Array.isArray(findings) ? findings : []
  return isOfUser && all.length > 0 && all.every((one) => isJsonObject(one) && one['detail'] === detail)
}

function isSignedVote(given: Json): given is Json & SignedVote {
  return Object.entries(given).every(([name, value]) => {
    const mayBeNull = name === 'comment' || name === 'log_id'
    return typeof value === 'string' || (mayBeNull && value === null)
  })
}

const members = ['public_key', 'origin', 'authenticator_data', 'client_data_json', 'signature']

function isAssertion(given: Json): given is Json & PasskeyAssertion {
  const { batch, ...rest } = given
  const isWhole = members.every((name) => typeof rest[name] === 'string')
  return isWhole && Object.keys(rest).length === members.length && (batch === undefined || areTexts(batch))
}

function areTexts(given: unknown): given is readonly string[] {
  return Array.isArray(given) && given.every((one) => typeof one === 'string')
}
