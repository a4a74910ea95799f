// The two keys of a caller. The person may not approve a call of their own, through whichever client it came. The
// principal is a person at one client: sessions, idempotency keys, escalations and tasks belong to it.
import { sha256Hex } from '../json/hash.js'
import type { Identity } from './slots.js'

type Named = Pick<
  Identity,
  'tenant' | 'authenticated' | 'issuer' | 'subject' | 'client' | 'user' | 'userId' | 'clientId'
>

/**
 * The names of a person, or of a service agent, in one spelling. Two identities that share a name are taken for one
 * person: a wrongly refused vote is better than a vote on one's own call. Without tenant and client, as an approval set
 * may have members of several tenants and a person may use several clients.
 */
export function personNamesOf({ user, userId, subject, clientId }: Named): readonly string[] {
  const names = [user, userId, subject, user === undefined ? clientId : undefined]
  const known = names.filter((name) => name !== undefined).map((name) => name.normalize('NFC').toLowerCase())
  return [...new Set(known)]
}

/**
 * SHA-256, hex, over tenant, issuer, subject and client. A token without a subject is named by its user: the subject
 * comes first because it stays the same when an email address changes.
 */
export function principalKeyOf(caller: Named): string {
  let key = principalKeys.get(caller)
  if (key === undefined) {
    key = computedKey(caller)
    principalKeys.set(caller, key)
  }
  return key
}

// The calls of a token share one identity, which nothing changes.
const principalKeys = new WeakMap<Named, string>()

function computedKey(caller: Named): string {
  const { tenant, authenticated, issuer, subject, client, user, userId, clientId } = caller
  const hasSubject = userId !== undefined || subject !== undefined
  const parts = [issuer, userId, subject, hasSubject ? undefined : user, client ?? clientId]
  return sha256Hex(JSON.stringify([tenant, authenticated, ...parts.map((part) => part ?? null)]))
}
