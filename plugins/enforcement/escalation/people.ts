// Who is who, and who may vote on what. A person goes by the names in their token; kept are only their hashes, which
// are another's in every escalation.
import { type ApprovalSet, type Identity, type PolicyFacts, type Reviewer, VoteError } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { Case } from './case.js'

/** The admin token is one person, whoever holds it. No user can have this name: it is hashed with its kind. */
const ADMIN = 'admin'

/** Hashes of the names that a caller goes by; empty for one who is nobody. */
export function callerOf(id: string, { user, userId, clientId }: Identity): string[] {
  const names = user === undefined ? [userId, clientId] : [user, userId]
  return hashes(id, names)
}

/** Hashes of the names that a reviewer goes by. */
export function personOf(id: string, reviewer: Reviewer): string[] {
  if (reviewer.kind === 'admin') return [sha256Hex(`${ADMIN}\n${id}`)]
  return hashes(id, [reviewer.identity.user, reviewer.identity.userId])
}

/** Names are the same in any case of letters: better no vote than one on one's own call. */
function hashes(id: string, names: readonly (string | undefined)[]): string[] {
  const told = names.filter((name) => name !== undefined).map((name) => name.normalize('NFC').toLowerCase())
  return [...new Set(told)].map((name) => sha256Hex(`user\n${id}\n${name}`))
}

/**
 * @throws {VoteError} `NOT_A_REVIEWER` for the caller itself, a service agent, somebody without a reviewer's role, of
 *   another tenant, or not in the approval set
 */
export function checkMayVote(value: Case, reviewer: Reviewer, facts: PolicyFacts): void {
  const fault = faultOf(value, reviewer, facts)
  if (fault !== undefined) throw new VoteError('NOT_A_REVIEWER', fault)
}

function faultOf(value: Case, reviewer: Reviewer, { reviewers, hasOidc }: PolicyFacts): string | undefined {
  const { approvalSetId } = value.rule
  if (reviewer.kind === 'admin') {
    if (hasOidc === true) return 'Where users are known, the admin token has no vote.'
    return approvalSetId === undefined ? undefined : 'The admin token is in no approval set.'
  }
  const { identity } = reviewer
  if (!identity.authenticated || identity.user === undefined) return 'Only a person may vote.'
  const own = personOf(value.id, reviewer)
  if (own.some((name) => value.caller.includes(name))) return 'Nobody votes on a call of their own.'
  if (!(reviewers?.roles ?? []).some((role) => identity.roles.includes(role))) {
    return "This needs a reviewer's role."
  }
  if (approvalSetId === undefined) {
    return identity.tenant === value.tenant ? undefined : 'The call is another tenant’s.'
  }
  const sets = reviewers?.approvalSets ?? {}
  const set = Object.hasOwn(sets, approvalSetId) ? sets[approvalSetId] : undefined
  return set !== undefined && isMember(set, identity) ? undefined : 'This needs a member of the approval set.'
}

function isMember({ users = [], roles = [] }: ApprovalSet, { user, userId, roles: own }: Identity): boolean {
  return users.some((name) => name === user || name === userId) || roles.some((role) => own.includes(role))
}
