// The key of a caller's principal, which is a person at one client: sessions, idempotency keys, escalations and tasks
// belong to it.
import { sha256Hex } from '../json/hash.js'

/** The caller, from the claims of the token. */
export interface Identity {
  readonly tenant: string
  readonly authenticated: boolean
  /** The user claim; a token without one belongs to a service agent. */
  readonly user?: string
  /** The subject claim. */
  readonly userId?: string
  /** The service agent: the client id claim, else `azp`, `client_id`, `sub`. */
  readonly clientId?: string
  /** The token's `iss`. */
  readonly issuer?: string
  /** The token's `sub`; differs from `userId` if the policy names another subject claim. */
  readonly subject?: string
  /** The client that the token was issued to, even if it names a user: the client id claim, else `azp`, `client_id`. */
  readonly client?: string
  readonly roles: readonly string[]
  /** The scopes of the token. */
  readonly scopes?: readonly string[]
  /** The node that the token names, in contrast to the header `x-node-id`, which is not verified. */
  readonly nodeId?: string
  /** The unit of callers that the token names, in the claim that the policy names. */
  readonly unit?: string
}

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
