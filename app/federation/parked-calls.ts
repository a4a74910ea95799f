// Calls at servers of a handshake that wait for input of a client of 2026-07-28. Such a server sends a request while the call
// runs; the client gets it in a result (`input_required`), and repeats the call with its responses. Meanwhile the call at
// the server goes on, in this process.
import { randomBytes } from 'node:crypto'
import type { ResponseChunk, ResponseStream } from '@svc/core'
import { eventOf } from '@svc/core/http'
import { isJsonObject, stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { isSameId } from '../mcp/message.js'
import type { RequestId } from '../mcp/protocol.js'
import { type Fields, isResponse } from '../mcp/rpc-response.js'
import { replaceMessage, shownEvent } from '../mcp/servers.js'
import type { ServerLink } from './server-calls.js'

/** Parked calls of one client; one more ends the oldest. */
const maxParked = 20
/** Time that a client has to respond, in milliseconds; a person may have to. */
const maxWaitMs = 600_000

/** The names of a call at its client: each round has an id and a token for progress of its own. */
export interface ClientWords {
  readonly id: unknown
  readonly progressToken: unknown
}

/** A server's request that waits for the client's response. */
export interface ServerAsk {
  readonly id: RequestId
  /** The key of the response. */
  readonly key: string
  readonly request: Fields
}

/** The call at its server. */
interface AtServer {
  readonly link: ServerLink
  readonly ownId: string
  /** The key that later rounds share with the first. */
  readonly key: string
}

export class ParkedCall {
  readonly call: CallControl
  readonly server: AtServer
  /** Resolves when the call at the server has ended. */
  readonly ended: Promise<void>
  /** Whether it was aborted while it waited for the client: its server is still at work. */
  isAbandoned = false
  /** The requests to which the client has to respond. */
  asks: readonly ServerAsk[] = []
  #words: ClientWords
  #parked: ParkedCalls
  #chunks: AsyncIterator<ResponseChunk>
  #end: () => void = () => undefined
  #resume: (() => void) | undefined
  #taken: ServerAsk[] = []

  constructor(
    call: CallControl,
    body: ResponseStream,
    words: ClientWords,
    server: AtServer,
    parked: ParkedCalls,
  ) {
    this.call = call
    this.server = server
    this.#words = words
    this.#parked = parked
    this.#chunks = body[Symbol.asyncIterator]()
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  /** Takes a request that the server sent during the call. */
  take(id: RequestId, request: Fields): void {
    this.#taken.push({ id, key: `request-${this.#taken.length + 1}`, request })
  }

  /** The stream of one round, in the words of its client: to a result that asks for input, or to the end. */
  async *round(words: ClientWords): AsyncGenerator<ResponseChunk> {
    this.#resume?.()
    this.#resume = undefined
    // The next round may begin before this one has ended.
    let goesOn = false
    try {
      for (;;) {
        const next = await this.#chunks.next()
        if (next.done === true) return
        yield this.#inWords(next.value, words)
        if (this.#taken.length === 0) continue
        const result = this.#park()
        goesOn = true
        yield { bytes: eventOf(stringifyJson({ jsonrpc: '2.0', id: words.id, result })) }
        return
      }
    } finally {
      if (!goesOn) await this.close()
    }
  }

  /** Ends the call. */
  async close(): Promise<void> {
    this.#resume?.()
    this.#resume = undefined
    try {
      await this.#chunks.return?.()
    } finally {
      this.#end()
    }
  }

  /** The result that asks for input. */
  #park(): Fields {
    this.asks = this.#taken
    this.#taken = []
    const { call } = this
    const resume = call.pauseTimeout()
    const requestState = this.#parked.add(this)
    const expire = (): void => call.abort('CANCELLED', 'The client did not give the input in time.')
    const timer = setTimeout(expire, maxWaitMs).unref()
    const onAbort = (): void => {
      this.isAbandoned = true
      void this.close()
    }
    call.signal.addEventListener('abort', onAbort)
    this.#resume = () => {
      clearTimeout(timer)
      call.signal.removeEventListener('abort', onAbort)
      this.#parked.delete(requestState)
      resume()
    }
    const inputRequests = Object.fromEntries(this.asks.map(({ key, request }) => [key, request]))
    return { resultType: 'input_required', inputRequests, requestState }
  }

  #inWords(chunk: ResponseChunk, words: ClientWords): ResponseChunk {
    if (words === this.#words) return chunk
    const { message } = shownEvent(chunk.bytes)
    if (message === undefined) return chunk
    if (isResponse(message))
      return { ...chunk, bytes: replaceMessage(chunk.bytes, { ...message, id: words.id }) }
    const { params } = message
    const { progressToken: token } = words
    if (
      !isJsonObject(params) ||
      !isSameId(params['progressToken'], this.#words.progressToken) ||
      token === undefined
    )
      return chunk
    return {
      ...chunk,
      bytes: replaceMessage(chunk.bytes, { ...message, params: { ...params, progressToken: token } }),
    }
  }
}

const prefix = 'svc-parked-'

/** The parked calls of one client, by the state that the client sends back. */
export class ParkedCalls {
  #calls = new Map<string, ParkedCall>()

  add(call: ParkedCall): string {
    const [oldest] = this.#calls.size < maxParked ? [] : this.#calls.values()
    oldest?.call.abort('CANCELLED', 'The client has too many calls that wait for its input.')
    const state = `${prefix}${randomBytes(16).toString('base64url')}`
    this.#calls.set(state, call)
    return state
  }

  /** Whether the state is one of the gateway's. */
  static isState(state: unknown): state is string {
    return typeof state === 'string' && state.startsWith(prefix)
  }

  /** The call, once: of two repetitions, one continues it. */
  take(state: unknown): ParkedCall | undefined {
    const call = typeof state === 'string' ? this.#calls.get(state) : undefined
    if (call !== undefined) this.#calls.delete(String(state))
    return call
  }

  restore(state: unknown, call: ParkedCall): void {
    this.#calls.set(String(state), call)
  }

  delete(state: string): void {
    this.#calls.delete(state)
  }
}
