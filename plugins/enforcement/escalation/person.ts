// Callers and reviewers as people. Only hashes of their names are stored, salted with the id of the escalation.
import type { Identity } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { foldName } from '@svc/core/match'

/**
 * The names of a person, or of a service agent, in one spelling. Two identities that share a name are taken for one
 * person: a wrongly refused vote is better than a vote on one's own call. Without tenant and client, as an approval set
 * may have members of several tenants and a person may use several clients.
 */
function personNamesOf({ user, userId, subject, clientId }: Identity): readonly string[] {
  const names = [user, userId, subject, user === undefined ? clientId : undefined]
  const known = names.filter((name) => name !== undefined).map(foldName)
  return [...new Set(known)]
}

/** Hashes of a caller's names; empty for a caller without a token. */
export function hashesOfNames(id: string, caller: Identity): string[] {
  return personNamesOf(caller).map((name) => sha256Hex(`user\n${id}\n${name}`))
}
