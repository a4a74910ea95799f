// Reads the body of a vote.
import type { IncomingMessage } from 'node:http'
import { type GivenVote, Refusal } from '@svc/core'
import { type JsonValue, messageOf, parseJson } from '@svc/core/json'
import { readBody } from '../http/body.js'

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
