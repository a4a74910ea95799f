// Sees the answer of the first call pass by, and says in the end what is to be remembered of it.
import {
  type AnswerChunk,
  type AnswerStream,
  type Call,
  type Completed,
  isStream,
  type Outcome,
  type Settlement,
} from '@svc/core'
import { encodeAnswer, type KeptAnswer, lasting } from './kept-answer.js'

/** What becomes of the key: it keeps an answer (null: only that there was one), it is free, or nobody knows. */
export type Ending = { readonly answer: Uint8Array | null } | 'free' | 'unknown'

/** By these an HTTP server says that it has not acted: the key may be used again (RFC 9110 §15.5, RFC 6585 §4). */
const notActed: ReadonlySet<number> = new Set([401, 403, 429])

/** By these an MCP server says that it has not taken the message; what a tool answers comes with 200. */
const notTaken: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 406, 413, 415, 429])

export interface KeeperOptions {
  /** Bytes of a body that are kept at most. */
  readonly maxBytes: number
  /** Milliseconds for which a streamed answer is read on when its caller has gone. */
  readonly drainMs: number
}

export class AnswerKeeper {
  #call: Call
  #options: KeeperOptions
  #pieces: Uint8Array[] = []
  #size = 0
  #isWhole = false
  #head: Omit<KeptAnswer, 'body'> | undefined
  #hasLeft = false
  #letGo: (() => void)[] = []

  constructor(call: Call, options: KeeperOptions) {
    this.#call = call
    this.#options = options
  }

  /** The same answer, watched. */
  watch(outcome: Completed): Completed {
    const { status, error = null, digest = null, body } = outcome
    this.#head = { status, headers: this.#headersOf(outcome), error, digest }
    if (isStream(body)) return { ...outcome, body: this.#isMcp ? this.#watched(body) : this.#readOn(body) }
    this.#keep(body)
    this.#isWhole = true
    return outcome
  }

  /** What to remember of a call that was sent, now that it has ended. */
  ending(settlement: Settlement): Ending {
    for (const letGo of this.#letGo.splice(0)) letGo()
    if (this.#head === undefined) return 'unknown'
    const { status } = this.#head
    if (settlement.error === 'PAYLOAD_TOO_LARGE' && !this.#isWhole) return { answer: null }
    if (!this.#isWhole || !isJudged(settlement)) return 'unknown'
    if ((this.#isMcp ? notTaken : notActed).has(status)) return 'free'
    if (this.#isTooLarge) return { answer: null }
    return { answer: encodeAnswer({ ...this.#head, body: Buffer.concat(this.#pieces) }) }
  }

  get #isMcp(): boolean {
    return this.#call.protocol === 'mcp'
  }

  get #isTooLarge(): boolean {
    return this.#size > this.#options.maxBytes
  }

  /** A stream of MCP is replayed as the response that it held, which needs no stream. */
  #headersOf({ headers, body }: Completed): Completed['headers'] {
    if (!this.#isMcp) return lasting(headers)
    const type = isStream(body) ? 'application/json' : headers['content-type']
    return type === undefined ? {} : { 'content-type': type }
  }

  /** A caller that has gone comes back for the answer, so a plain stream is read on for a while. */
  #readOn(body: AnswerStream): AnswerStream {
    this.#letGo.push(
      this.#call.onDisconnect(() => {
        this.#hasLeft = true
        const timer = setTimeout(() => this.#giveUp(), this.#options.drainMs)
        this.#letGo.push(() => clearTimeout(timer))
      }),
    )
    return { ...this.#watched(body), drainWhenAbandoned: true }
  }

  #giveUp(): void {
    this.#call.abort('UPSTREAM_UNREACHABLE', 'The caller disconnected before the answer was complete.')
  }

  #watched(body: AnswerStream): AnswerStream {
    const { drainWhenAbandoned = false } = body
    return { drainWhenAbandoned, [Symbol.asyncIterator]: () => this.#flow(body) }
  }

  async *#flow(body: AnswerStream): AsyncGenerator<AnswerChunk> {
    for await (const chunk of body) {
      if (!this.#isMcp) this.#keep(chunk.bytes)
      else if (chunk.answer?.content !== undefined) {
        const { content, digest, error = null } = chunk.answer
        this.#keep(Buffer.from(content))
        this.#isWhole = true
        if (this.#head !== undefined) this.#head = { ...this.#head, digest, error }
      }
      if (this.#hasLeft && this.#isTooLarge) this.#giveUp()
      yield chunk
    }
    if (!this.#isMcp) this.#isWhole = true
  }

  #keep(bytes: Uint8Array): void {
    this.#size += bytes.byteLength
    if (this.#isTooLarge) this.#pieces = []
    else this.#pieces.push(bytes)
  }
}

/**
 * Whether the answer reached its caller, or a rule outside kept it back, as it will keep back the replay. Any other code
 * means that it broke off, or was withheld as it could not be recorded.
 */
function isJudged({ outcome, error }: Settlement): boolean {
  if (error === null || error === 'UPSTREAM' || error === 'PAYLOAD_TOO_LARGE') return true
  return outcome.kind === 'denied' && outcome.code === error
}

export function isWatchable(outcome: Outcome): outcome is Completed {
  return outcome.kind === 'completed' && outcome.sent !== 'no'
}
