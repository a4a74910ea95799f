// Finds the client that sends a request to the admin listener.
import type { IncomingMessage } from 'node:http'
import { isRefusal, Refusal, type Reviewer, resolveOptional, services } from '@svc/core'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { AdminAuthorizer } from '../policy/admin-authorizer.js'
import { bodyOf } from './body.js'
import type { Operation } from './operation.js'
import type { TokenGuesses } from './token-guesses.js'

/** The context in which one request to the admin listener is handled. */
export interface AdminExchange {
  readonly traceId: string
  /** The policy in force, which stays started while the request is handled. */
  readonly policy: ActivePolicy
  readonly authorizer: AdminAuthorizer
}

/** The session whose cookie came with a request. */
export interface RequestSession {
  readonly client: Reviewer
  /** Rejects with `Refusal` if the request may not use it. */
  check(body: () => Promise<Uint8Array>): Promise<void>
}

/** RFC 6750 §2.1; the scheme's case does not matter. */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i

/** Undefined if the request has no session of the console. */
type FindSession = (message: IncomingMessage, exchange: AdminExchange) => Promise<RequestSession | undefined>

export interface IdentifyDependencies {
  readonly findSession: FindSession
  readonly guesses: TokenGuesses
}

interface Identified {
  readonly message: IncomingMessage
  readonly operation: Pick<Operation, 'by'>
  readonly exchange: AdminExchange
  /** Gets a client whose request may still be refused. */
  readonly known: ((client: Reviewer) => void) | undefined
}

/**
 * Resolves to the client of the token, else of the console's cookie, as the operation allows. Rejects with `Refusal`.
 */
export async function clientOf(
  { message, operation: { by }, exchange, known }: Identified,
  { findSession, guesses }: IdentifyDependencies,
): Promise<Reviewer> {
  const { authorization, cookie } = message.headers
  if (authorization !== undefined && by !== 'cookie') return clientOfToken(message, exchange, guesses)
  if (authorization === undefined && cookie !== undefined && by !== 'token') {
    const session = await findSession(message, exchange)
    if (session !== undefined) {
      known?.(session.client)
      await session.check(() => bodyOf(message))
      return session.client
    }
  }
  throw new Refusal(
    'UNAUTHENTICATED',
    by === 'cookie'
      ? 'This is for a session of the console, and not for a token.'
      : 'Send "Authorization: Bearer <token>", your own or the admin token.',
  )
}

/** Requests whose token was right once; a stream asks again each second, which is not a guess. */
const admitted = new WeakSet<IncomingMessage>()

/** Rejects with `Refusal`. */
async function clientOfToken(
  message: IncomingMessage,
  exchange: AdminExchange,
  guesses: TokenGuesses,
): Promise<Reviewer> {
  const { authorizer } = exchange
  // A user's token is not compared with the admin token, so it waits for none that is.
  let failure: unknown
  try {
    const user = await userOf(message, exchange)
    if (user !== undefined) return user
  } catch (error) {
    failure = error
  }
  const [, presented] = bearer.exec(message.headers.authorization ?? '') ?? []
  const isGuess = presented !== undefined && !admitted.has(message)
  const attempt = isGuess ? await guesses.begin(message.socket.remoteAddress ?? '') : undefined
  try {
    const isCompared = presented !== undefined && attempt?.refusal === undefined
    if (!isCompared || !(await hasToken(presented, authorizer))) throw failure ?? notAdmin(authorizer)
    admitted.add(message)
    attempt?.succeed()
    return { kind: 'admin' }
  } catch (error) {
    if (isRefusal(error) && error.code !== 'STORE_UNAVAILABLE') {
      attempt?.fail()
      throw attempt?.refusal ?? error
    }
    attempt?.succeed()
    throw error
  }
}

/** Undefined if the token is of no user. Rejects with `Refusal`. */
async function userOf(
  { headers }: IncomingMessage,
  { policy, authorizer }: AdminExchange,
): Promise<Reviewer | undefined> {
  // Without OIDC only the admin token is valid, and authn's reason for refusing another would mislead.
  const identify = authorizer.tokenVotes ? undefined : resolveOptional(policy.container, services.identify)
  const identity = await identify?.(headers)
  return identity?.authenticated === true ? { kind: 'user', identity } : undefined
}

function notAdmin({ token }: AdminAuthorizer): Refusal {
  const reason =
    token === undefined
      ? 'No token is valid here: the policy has neither admin.tokenRef nor authn.oidc.'
      : 'This is not the admin token.'
  return new Refusal('UNAUTHENTICATED', reason)
}

async function hasToken(presented: string, { token }: AdminAuthorizer): Promise<boolean> {
  if (token === undefined) return false
  try {
    return await token.equals(presented)
  } catch (cause) {
    throw new Refusal('STORE_UNAVAILABLE', 'The admin token cannot be read.', { cause })
  }
}
