// Who may vote. A person is identified by the names in their token; only hashes are stored, salted with the escalation's
// id.
import {
  type ApprovalSet,
  type Identity,
  type PolicyFacts,
  personNamesOf,
  type Reviewer,
  VoteError,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { StoredEscalation } from './stored-escalation.js'

/** The admin token counts as one person. No user can have this name: it is hashed with its kind. */
const ADMIN = 'admin'

/** Hashes of a caller's names; empty for a caller without a token. */
export function callerOf(id: string, caller: Identity): string[] {
  return personNamesOf(caller).map((name) => sha256Hex(`user\n${id}\n${name}`))
}

/** Hashes of a reviewer's names. */
export function personOf(id: string, reviewer: Reviewer): string[] {
  if (reviewer.kind === 'admin') return [sha256Hex(`${ADMIN}\n${id}`)]
  return callerOf(id, reviewer.identity)
}

/**
 * @throws {VoteError} `NOT_A_REVIEWER` for the caller itself and for a service agent; without an approval set also for
 *   somebody without a reviewer's role or of another tenant, with one for somebody who is not in it
 */
export function checkMayVote(value: StoredEscalation, reviewer: Reviewer, facts: PolicyFacts): void {
  const fault = faultOf(value, reviewer, facts)
  if (fault !== undefined) throw new VoteError('NOT_A_REVIEWER', fault)
}

function faultOf(
  value: StoredEscalation,
  reviewer: Reviewer,
  { reviewers, hasOidc }: PolicyFacts,
): string | undefined {
  const { approvalSetId } = value.rule
  if (reviewer.kind === 'admin') {
    if (hasOidc === true) return 'Where users are known, the admin token has no vote.'
    return approvalSetId === undefined ? undefined : 'The admin token is in no approval set.'
  }
  const { identity } = reviewer
  if (!identity.authenticated || identity.user === undefined) return 'Only a person may vote.'
  const own = personOf(value.id, reviewer)
  if (own.some((name) => value.caller.includes(name))) return 'Nobody votes on a call of their own.'
  if (approvalSetId === undefined) {
    const isReviewer = (reviewers?.roles ?? []).some((role) => identity.roles.includes(role))
    if (!isReviewer) return "This needs a reviewer's role."
    return identity.tenant === value.tenant ? undefined : 'The call is another tenant’s.'
  }
  const sets = reviewers?.approvalSets ?? {}
  const set = Object.hasOwn(sets, approvalSetId) ? sets[approvalSetId] : undefined
  return set !== undefined && isMember(set, identity) ? undefined : 'This needs a member of the approval set.'
}

function isMember({ users = [], roles = [] }: ApprovalSet, { user, userId, roles: own }: Identity): boolean {
  return users.some((name) => name === user || name === userId) || roles.some((role) => own.includes(role))
}
