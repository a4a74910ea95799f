// What a request to the admin listener asks for: the route, from its method and path alone, and the vote in its body.
import type { IncomingMessage } from 'node:http'
import { type GivenVote, Refusal } from '@svc/core'
import { type JsonValue, messageOf, parseJson } from '@svc/core/json'
import { isEscalationId } from '../escalations/id.js'
import { readBody } from '../http/body.js'

export type AdminRoute =
  | { readonly kind: 'health' }
  | { readonly kind: 'metrics' }
  | { readonly kind: 'list'; readonly query: URLSearchParams }
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'input'; readonly id: string }
  | { readonly kind: 'vote'; readonly id: string }
  | { readonly kind: 'none' }

const onePath = /^\/api\/escalations\/([^/]+)(\/votes|\/input)?$/

export function adminRouteOf(method: string, url: string): AdminRoute {
  const [path = '', ...rest] = url.split('?')
  const [, one, part] = onePath.exec(path) ?? []
  if (one !== undefined && !isEscalationId(one)) return none
  if (method === 'POST') return one === undefined || part !== '/votes' ? none : { kind: 'vote', id: one }
  if (method !== 'GET' && method !== 'HEAD') return none
  if (path === '/healthz') return { kind: 'health' }
  if (path === '/metrics') return { kind: 'metrics' }
  if (path === '/api/escalations') return { kind: 'list', query: new URLSearchParams(rest.join('?')) }
  if (one === undefined || part === '/votes') return none
  return { kind: part === undefined ? 'show' : 'input', id: one }
}

const none: AdminRoute = { kind: 'none' }

const maxBodyBytes = 16_384
/** UTF-16 units. */
const maxComment = 1000

/** `{ "vote": "approve" | "reject", "comment"?: string, "input_sha256"?: string }`. Rejects with `Refusal`. */
export async function readVote(message: IncomingMessage): Promise<GivenVote> {
  const type = message.headers['content-type'] ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new Refusal('BAD_REQUEST', 'content-type: expected application/json.')
  }
  const body = parsed(await readBody(message, maxBodyBytes))
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw badVote()
  const { vote, comment, input_sha256: inputSha256, ...rest } = body
  if ((vote !== 'approve' && vote !== 'reject') || Object.keys(rest).length > 0) throw badVote()
  if (!isOptionalText(comment) || !isOptionalText(inputSha256)) throw badVote()
  if (comment !== undefined && comment.length > maxComment) {
    throw new Refusal('BAD_REQUEST', `comment: expected at most ${maxComment} characters.`)
  }
  return {
    vote,
    ...(comment === undefined ? {} : { comment }),
    ...(inputSha256 === undefined ? {} : { inputSha256 }),
  }
}

function isOptionalText(value: JsonValue | undefined): value is string | undefined {
  return value === undefined || typeof value === 'string'
}

function parsed(bytes: Uint8Array): JsonValue {
  try {
    return parseJson(bytes)
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `The body is refused: ${messageOf(cause)}`, { cause })
  }
}

function badVote(): Refusal {
  return new Refusal(
    'BAD_REQUEST',
    'Expected {"vote": "approve" | "reject", "comment"?: string, "input_sha256"?: string}.',
  )
}
