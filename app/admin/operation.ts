// What operators do over the admin listener, beside escalations: each operation is one route.
import { Refusal, type Reviewer } from '@svc/core'
import type { z } from 'zod'

interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** A segment `:id` stands for an id. */
  readonly path: string
  /** The event in the record of an access. */
  readonly name: string
}

export interface OperationRequest<Body> {
  readonly client: Reviewer
  /** Undefined if the path has none. */
  readonly id: string | undefined
  readonly body: Body
}

/** An operation that reads is for operators and auditors; one that changes something is for operators alone. */
export interface Operation<Body = unknown> extends Route {
  readonly changes: boolean
  /** Of the JSON in the request; absent: it has none. */
  readonly body?: z.ZodType<Body>
  /** Resolves to the response, as JSON. Rejects with `Refusal`. */
  run(request: OperationRequest<Body>): Promise<object>
}

/** Keeps the type of the body between schema and function. */
export function operation<Body>(given: Operation<Body>): Operation {
  const { body: schema, run, ...rest } = given
  return {
    ...rest,
    ...(schema === undefined ? {} : { body: schema }),
    run({ client, id, body }) {
      const parsed = schema?.safeParse(body)
      if (parsed?.success === false) {
        const [issue] = parsed.error.issues
        throw new Refusal('BAD_REQUEST', `${issue?.path.join('.') || 'the body'}: ${issue?.message}.`)
      }
      return run({ client, id, body: parsed?.data as Body })
    },
  }
}

export interface FoundOperation {
  readonly operation: Operation
  readonly id: string | undefined
}

export function findOperation(
  operations: readonly Operation[],
  method: string,
  path: string,
): FoundOperation | undefined {
  const segments = path.split('/')
  for (const found of operations) {
    const wanted = found.path.split('/')
    if (found.method !== method || wanted.length !== segments.length) continue
    const at = wanted.indexOf(':id')
    if (wanted.some((segment, index) => index !== at && segment !== segments[index])) continue
    const id = segments[at]
    if (id === undefined || /^[\w-]{1,64}$/.test(id)) return { operation: found, id }
  }
  return undefined
}
