// Decides who may vote on an escalation: a reviewer of its tenant or set, and never its caller.
import {
  type DependencyContainer,
  hostOf,
  isMemberOf,
  isPerson,
  policyTokens,
  type Reviewer,
  resolveOptional,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { hashesOfNames } from './person.js'
import type { StoredEscalation } from './stored-escalation.js'

/** The admin token counts as one person. No user can have this name: it is hashed with its kind. */
const ADMIN = 'admin'

/** Hashes of a reviewer's names. */
export function personOf(id: string, reviewer: Reviewer): string[] {
  if (reviewer.kind === 'admin') return [sha256Hex(`${ADMIN}\n${id}`)]
  return hashesOfNames(id, reviewer.identity)
}

/**
 * The reason why the reviewer may not vote; undefined if they may. A caller and a service agent never may; without an approval
 * set also not a user of another tenant or without a reviewer role, with one not a user outside it.
 */
export function voteRefusal(
  value: StoredEscalation,
  reviewer: Reviewer,
  container: DependencyContainer,
): string | undefined {
  const { approvalSetId, secondSet } = value.rule
  if (reviewer.kind === 'admin') {
    if (resolveOptional(container, policyTokens.knowsUsers) === true)
      return 'The admin token has no vote, because users are known.'
    return approvalSetId === undefined ? undefined : 'The admin token is in no approval set.'
  }
  const { identity } = reviewer
  const { reviewers } = hostOf(container)
  if (!isPerson(identity)) return 'Only a person may vote.'
  const own = personOf(value.id, reviewer)
  if (own.some((name) => value.caller.includes(name))) return 'Nobody votes on a call of their own.'
  const sets = reviewers?.approvalSets ?? {}
  const isInSet = (id: string) => {
    const set = Object.hasOwn(sets, id) ? sets[id] : undefined
    return set !== undefined && isMemberOf(set, identity)
  }
  if (value.step === 'second_set' && secondSet !== undefined && isInSet(secondSet.setId)) return undefined
  if (approvalSetId === undefined) {
    const isReviewer = (reviewers?.roles ?? []).some((role) => identity.roles.includes(role))
    if (!isReviewer) return "This needs a reviewer's role."
    return identity.tenant === value.tenant ? undefined : 'The call is another tenant’s.'
  }
  return isInSet(approvalSetId) ? undefined : 'This needs a member of the approval set.'
}
