// Reads the body of a vote.
import type { IncomingMessage } from 'node:http'
import { Refusal } from '@svc/core'
import { type JsonValue, messageOf, parseJson } from '@svc/core/json'
import { readBody } from '../http/body.js'

const maxBodyBytes = 16_384
/** UTF-16 units. */
const maxComment = 1000

export interface Vote {
  readonly vote: 'approve' | 'reject'
  readonly comment?: string
}

/** `{ "vote": "approve" | "reject", "comment"?: string }`. Rejects with `Refusal`. */
export async function readVote(message: IncomingMessage): Promise<Vote> {
  const type = message.headers['content-type'] ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new Refusal('BAD_REQUEST', 'content-type: expected application/json.')
  }
  const body = parsed(await readBody(message, maxBodyBytes))
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw badVote()
  const { vote, comment, ...rest } = body
  if ((vote !== 'approve' && vote !== 'reject') || Object.keys(rest).length > 0) throw badVote()
  if (comment === undefined) return { vote }
  if (typeof comment !== 'string') throw badVote()
  if (comment.length > maxComment) {
    throw new Refusal('BAD_REQUEST', `comment: expected at most ${maxComment} characters.`)
  }
  return { vote, comment }
}

function parsed(bytes: Uint8Array): JsonValue {
  try {
    return parseJson(bytes)
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `The body is refused: ${messageOf(cause)}`, { cause })
  }
}

function badVote(): Refusal {
  return new Refusal('BAD_REQUEST', 'Expected {"vote": "approve" | "reject", "comment"?: string}.')
}
