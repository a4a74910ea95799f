// The operations of the admin API: each is one route, with the schemas from which its OpenAPI document is made.

import type { IncomingHttpHeaders } from 'node:http'
import { type Denied, type ErrorCode, Refusal, type Reviewer } from '@svc/core'
import { defined } from '@svc/core/json'
import { z } from 'zod'
import { idForm } from '../http/request-errors.js'
import type { BufferedResponse } from '../http/response.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { AdminAccess, AdminAuthorizer } from '../policy/admin-authorizer.js'

/**
 * The clients that may use an operation: all that are signed in; those with any role or set, who see only their part; those who
 * may read metrics; operators and auditors; operators.
 */
export type AccessLevel = 'signed-in' | 'reader' | 'metrics' | 'auditor' | 'operator'

interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** A segment `:id` stands for an id. */
  readonly path: string
  /** The event in the record of an access. */
  readonly name: string
  /** The kind of object that `:id` names, if records have its id. */
  readonly idOf?: 'escalation'
  /** One sentence that says what the operation does. */
  readonly summary: string
  readonly access: AccessLevel
  /** The way in which the client must identify itself; absent: by a token, or by the cookie of a session. */
  readonly by?: 'token' | 'cookie'
}

/** Sends the events of a response. */
export interface EventSink {
  /** Aborts when the client has left, or the listener closes. */
  readonly signal: AbortSignal
  /** Whether the client leaves events unread; further ones wait in memory. */
  readonly isCongested: boolean
  /** `data` goes out as JSON. `id` is for the client's `Last-Event-ID`. */
  send(event: string, data: object, id?: string): void
}

/** A response of events, which ends when the function does. */
export class AdminEventStream {
  constructor(readonly run: (sink: EventSink) => Promise<void>) {}
}

export interface OperationRequest<Body = unknown, Query = unknown> {
  readonly client: Reviewer
  readonly access: AdminAccess
  readonly authorizer: AdminAuthorizer
  /** The headers of the request; empty if the console asks for its pages. */
  readonly headers: IncomingHttpHeaders
  /** The policy in force, which stays started while the operation runs. */
  readonly policy: ActivePolicy
  /** Undefined if the path has none. */
  readonly id: string | undefined
  readonly query: Query
  readonly body: Body
  /** Records the refusal of a part of the request; `id` names the object. */
  recordRefusal(id: string, code: ErrorCode): Promise<void>
  /**
   * Runs `use` under the policy that is in force now, with the client's current rights. Rejects with `Refusal` if the request
   * is no longer allowed.
   */
  again<T>(use: (request: OperationRequest<Body, Query>) => Promise<T>): Promise<T>
}

/** A response that is not the JSON of an object, written as it is. */
export class PlainResponse {
  constructor(readonly buffered: BufferedResponse) {}
}

export interface Operation<Body = unknown, Query = unknown> extends Route {
  /** Absent: it has no query. Values are texts; each name may be there once. */
  readonly query?: z.ZodType<Query>
  /** The schema of the JSON in the request; absent if the request has no body. */
  readonly body?: z.ZodType<Body>
  /** The schema of the JSON in the response, or of the data of its events; `text` for plain text. */
  readonly response: z.ZodType | 'text' | Readonly<Record<string, z.ZodType>>
  /** Set if accesses are not recorded, because the operation writes records of its own, or shows no data about people. */
  readonly isUnrecorded?: true
  /** Resolves to the response, as JSON. Rejects with `Refusal`. */
  run(request: OperationRequest<Body, Query>): Promise<object | PlainResponse | AdminEventStream | Denied>
}

/** Keeps the types of body and query between schemas and function. */
export function operation<Body, Query>(given: Operation<Body, Query>): Operation {
  const { body, query, run, ...rest } = given
  return {
    ...rest,
    ...defined({ body, query }),
    async run(request) {
      const values = {
        query: parsed(query ?? noQuery, request.query, 'the query') as Query,
        body: (body === undefined ? undefined : parsed(body, request.body, 'the body')) as Body,
      }
      const typed = (one: OperationRequest): OperationRequest<Body, Query> => ({
        ...one,
        ...values,
        again: (use) => one.again((later) => use(typed(later))),
      })
      return run(typed(request))
    },
  }
}

const noQuery = z.strictObject({})

function parsed(schema: z.ZodType, given: unknown, what: string): unknown {
  const result = schema.safeParse(given)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw new Refusal('BAD_REQUEST', `${issue?.path.join('.') || what}: ${issue?.message}.`)
}

export interface FoundOperation {
  readonly operation: Operation
  readonly id: string | undefined
  readonly query: Readonly<Record<string, string>>
}

/** A limit, because records have the whole query of an access. */
const MAX_URL = 8_000

/** @throws {Refusal} `BAD_REQUEST` if a name is in the query twice, or the query is too long */
export function findOperation(
  operations: readonly Operation[],
  method: string,
  url: string,
): FoundOperation | undefined {
  if (url.length > MAX_URL) throw new Refusal('BAD_REQUEST', `Path and query are over ${MAX_URL} characters.`)
  const [path = '', ...rest] = url.split('?')
  const segments = path.split('/')
  const wantedMethod = method === 'HEAD' ? 'GET' : method
  for (const found of operations) {
    const wanted = found.path.split('/')
    if (found.method !== wantedMethod || wanted.length !== segments.length) continue
    const at = wanted.indexOf(':id')
    if (wanted.some((segment, index) => index !== at && segment !== segments[index])) continue
    const id = segments[at]
    if (id === undefined || idForm.test(id)) return { operation: found, id, query: queryOf(rest.join('?')) }
  }
  return undefined
}

function queryOf(text: string): Record<string, string> {
  const query = new URLSearchParams(text)
  for (const name of query.keys()) {
    if (query.getAll(name).length > 1) throw new Refusal('BAD_REQUEST', `${name}: expected at most once.`)
  }
  return Object.fromEntries(query)
}
