// What a request to the admin listener asks for: the route, from its method and path alone, and the vote in its body.
import type { IncomingMessage } from 'node:http'
import { type GivenVote, Refusal } from '@svc/core'
import { z } from 'zod'
import { isEscalationId } from '../escalations/view.js'
import { jsonObjectIn, readBody } from '../http/body.js'

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

const voteSchema = z.strictObject({
  vote: z.enum(['approve', 'reject']),
  comment: z.string().optional(),
  input_sha256: z.string().optional(),
})

/** `{ "vote": "approve" | "reject", "comment"?: string, "input_sha256"?: string }`. Rejects with `Refusal`. */
export async function readVote(message: IncomingMessage): Promise<GivenVote> {
  const type = message.headers['content-type'] ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new Refusal('BAD_REQUEST', 'content-type: expected application/json.')
  }
  const body = voteSchema.safeParse(jsonObjectIn(await readBody(message, maxBodyBytes)))
  if (!body.success) {
    throw new Refusal(
      'BAD_REQUEST',
      'Expected {"vote": "approve" | "reject", "comment"?: string, "input_sha256"?: string}.',
    )
  }
  const { vote, comment, input_sha256: inputSha256 } = body.data
  if (comment !== undefined && comment.length > maxComment) {
    throw new Refusal('BAD_REQUEST', `comment: expected at most ${maxComment} characters.`)
  }
  return {
    vote,
    ...(comment === undefined ? {} : { comment }),
    ...(inputSha256 === undefined ? {} : { inputSha256 }),
  }
}
