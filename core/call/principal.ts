// The key of a caller's principal, which is a person at one client: sessions, idempotency keys, escalations and tasks
// belong to it.
import { sha256Hex } from '../json/hash.js'
import type { Identity } from './slots.js'

type Named = Pick<
  Identity,
  'tenant' | 'authenticated' | 'issuer' | 'subject' | 'client' | 'user' | 'userId' | 'clientId'
>

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

/** The name of a caller: the user, else the service agent; undefined if the token names nobody. */
export function callerNameOf({
  user,
  clientId,
  userId,
}: Pick<Named, 'user' | 'clientId' | 'userId'>): string | undefined {
  return user ?? clientId ?? userId
}

/** Whether the caller is a person, who may vote. A token that names no user is that of a service agent, which never does. */
export function isPerson({
  authenticated,
  user,
}: Pick<Named, 'authenticated'> & { user?: string | undefined }): boolean {
  return authenticated && user !== undefined
}

/** The same for a person at any client; of a service agent, which is its client, it is the principal's key. */
export function personKeyOf(caller: Named): string {
  if (caller.user === undefined) return principalKeyOf(caller)
  const { client, clientId, ...person } = caller
  return principalKeyOf(person)
}

// The calls of a token share one identity, which nothing changes.
const principalKeys = new WeakMap<Named, string>()

function computedKey(caller: Named): string {
  const { tenant, authenticated, issuer, subject, client, user, userId, clientId } = caller
  const hasSubject = userId !== undefined || subject !== undefined
  const parts = [issuer, userId, subject, hasSubject ? undefined : user, client ?? clientId]
  return sha256Hex(JSON.stringify([tenant, authenticated, ...parts.map((part) => part ?? null)]))
}
