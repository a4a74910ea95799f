// The operations on the session of a client of the admin listener, and on its rights.
import type { IncomingMessage } from 'node:http'
import { isPerson, type ResponseHeaders, type Reviewer } from '@svc/core'
import { z } from 'zod'
import type { BufferedResponse } from '../http/response.js'
import { isReader } from '../policy/admin-authorizer.js'
import type { AdminExchange, RequestSession } from './client.js'
import { type Operation, type OperationRequest, operation, PlainResponse } from './operation.js'

const sessionSchema = z.object({
  kind: z.enum(['admin', 'user']).describe('The admin token, or a user.'),
  name: z.string(),
  tenant: z.string().optional(),
  roles: z.array(z.string()).readonly(),
  votes: z.enum(['person', 'admin_token', 'none']).describe('The kind of voter that the client is.'),
  vote_refusal: z.string().optional().describe('Why the client may decide nothing, if it may not.'),
  may: z.object({
    read: z.boolean().describe('Read at all: your part of what the gateway has, and its events.'),
    read_metrics: z.boolean(),
    read_outlines: z.boolean().describe('Every escalation, without the input of its call.'),
    read_calls: z.boolean().describe('Calls and records: of every tenant, or of your own.'),
    read_all: z.boolean().describe('Everything, of every tenant.'),
    operate: z.boolean().describe('Change what the gateway does.'),
  }),
  approval_sets: z.array(z.string()),
})

/** A public key of P-256, as browsers export it (RFC 7517). */
export const sessionKeySchema = z.strictObject({
  kty: z.literal('EC'),
  crv: z.literal('P-256'),
  x: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
  y: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
})

export type SessionKey = z.output<typeof sessionKeySchema>

const signInSchema = z.strictObject({
  key: sessionKeySchema.describe('Its private key signs each change of the session (header x-svc-proof).'),
})

export type SessionJson = z.output<typeof sessionSchema>

const showSession = operation({
  method: 'GET',
  path: '/api/session',
  name: 'show_session',
  summary: 'Returns who is signed in, and what they may do.',
  access: 'signed-in',
  isUnrecorded: true,
  response: sessionSchema,
  run: async (request) => sessionOf(request),
})

/** `console` keeps the sessions. */
export function sessionOperations(console: () => Promise<AdminConsole>): Operation[] {
  return [
    showSession,
    operation({
      method: 'POST',
      path: '/api/session',
      name: 'sign_in',
      summary: 'Begins a session of the console for the client of the token, and sets its cookie.',
      access: 'signed-in',
      by: 'token',
      body: signInSchema,
      response: sessionSchema,
      async run(request) {
        const headers = await (await console()).begin(request, request.body.key)
        const body = `${JSON.stringify(sessionOf(request))}\n`
        return new PlainResponse({
          status: 200,
          headers: { 'content-type': 'application/json', ...headers },
          body,
        })
      },
    }),
    operation({
      method: 'DELETE',
      path: '/api/session',
      name: 'sign_out',
      summary: 'Ends the session of the cookie.',
      access: 'signed-in',
      by: 'cookie',
      response: z.object({}),
      run: async (request) => emptyWith(await (await console()).end(request)),
    }),
    operation({
      method: 'POST',
      path: '/api/session/activity',
      name: 'keep_session',
      summary:
        'Says that the user of the session is active, so that it does not end as idle; renews its cookie.',
      access: 'signed-in',
      by: 'cookie',
      isUnrecorded: true,
      body: z.strictObject({}),
      response: z.object({}),
      run: async (request) => emptyWith(await (await console()).keep(request)),
    }),
  ]
}

function emptyWith(headers: ResponseHeaders): PlainResponse {
  const json = { 'content-type': 'application/json', ...headers }
  return new PlainResponse({ status: 200, headers: json, body: '{}\n' })
}

export function sessionOf({
  client,
  access,
  authorizer,
}: Pick<OperationRequest, 'client' | 'access' | 'authorizer'>): SessionJson {
  const { readsMetrics, readsOutlines, readsAll, operates, tenant, sets } = access
  const may = {
    read: isReader(access),
    read_metrics: readsMetrics,
    read_outlines: readsOutlines,
    read_calls: readsAll || tenant !== undefined,
    read_all: readsAll,
    operate: operates,
  }
  const approval_sets = [...sets]
  if (client.kind === 'admin') {
    const refusal = authorizer.tokenVotes
      ? undefined
      : 'The admin token has no vote, because users are known.'
    return {
      kind: 'admin',
      name: 'the admin token',
      roles: [],
      ...votesOf('admin_token', refusal),
      may,
      approval_sets,
    }
  }
  const { user, userId, subject, roles } = client.identity
  const refusal = !isPerson(client.identity)
    ? 'Your token names no user (authn.oidc.userClaim of the policy), so it counts as that of a service agent, which never votes.'
    : tenant === undefined && sets.size === 0
      ? 'You have no role of a reviewer (admin.roles of the policy), and are in no approval set.'
      : undefined
  return {
    kind: 'user',
    name: user ?? userId ?? subject ?? 'a user',
    tenant: client.identity.tenant,
    roles,
    ...votesOf('person', refusal),
    may,
    approval_sets,
  }
}

function votesOf(
  kind: 'person' | 'admin_token',
  refusal: string | undefined,
): Pick<SessionJson, 'votes' | 'vote_refusal'> {
  return refusal === undefined ? { votes: kind } : { votes: 'none', vote_refusal: refusal }
}

export interface ConsoleExchange extends AdminExchange {
  /** Sends a GET request to the API for the client that `identify` resolves to. Never rejects. */
  ask(identify: () => Promise<Reviewer>, path: string): Promise<BufferedResponse>
  /** Begins a session of the client that `identify` resolves to, as the operation does. Never rejects. */
  signIn(identify: () => Promise<Reviewer>, key: SessionKey): Promise<BufferedResponse>
  /** The body of the request. Rejects with `Refusal` if it is not JSON. */
  readJson(): Promise<object>
}

/** The web pages of the listener, and the sessions of their users. */
export interface AdminConsole {
  /** Headers of a response that begins a session of the client. Rejects with `Refusal`. */
  begin(request: OperationRequest, key: SessionKey): Promise<ResponseHeaders>
  /** Headers of a response that ends the session of the request, which is over then. */
  end(request: OperationRequest): Promise<ResponseHeaders>
  /** Headers of a response after which the session of the request, whose user is active, does not end as idle. */
  keep(request: OperationRequest): Promise<ResponseHeaders>
  respond(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse>
  /** Undefined if the request has no session. */
  sessionOf(message: IncomingMessage, exchange: AdminExchange): Promise<RequestSession | undefined>
}
