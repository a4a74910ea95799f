// Serves a client of a handshake if a server of 2026-07-28 requests input in a result (`input_required`): the gateway sends
// the requests on the stream of the call, and repeats the call with the responses. Each repetition is a call of its own, and is judged.
import { type Completed, isStream, type Outcome, type ResponseChunk, type ResponseStream } from '@svc/core'
import { eventOf } from '@svc/core/http'
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from '@svc/core/json'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import type { ClientRequests } from '../mcp/client-requests.js'
import type { Encoding } from '../mcp/message-outcome.js'
import { rpcCodes } from '../mcp/protocol.js'
import { asksForInput } from '../mcp/revision-translation.js'
import { rpcError } from '../mcp/rpc-error.js'
import type { Fields } from '../mcp/rpc-response.js'
import { shownEvent, shownMessage } from '../mcp/servers.js'
import type { FederationSession } from './session.js'

/** A server that asks without an end would never let the call end. */
const maxRounds = 10
const maxRequests = 20
/** Time that a client has to respond, in milliseconds; a person may have to. */
const maxWaitMs = 600_000
/** Silence after which the client gets a comment, in milliseconds. */
const keepAliveMs = 15_000

/** The capability that a client must have for a request, by method. */
const capabilities: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** The outcome of one round, and how to read it. */
export interface RoundOutcome {
  readonly outcome: Outcome
  response(): ReturnType<Encoding['response']>
}

export interface InputRounds {
  readonly session: FederationSession
  readonly asked: ClientRequests
  /** The client's id of the request. */
  readonly id: unknown
  /** Waits for the client. The signal aborts when the client leaves or cancels the request, or when the gateway ends the call. */
  hold(): { readonly signal: AbortSignal; release(): void }
  /** Repeats the call with these params; it ends when `use` has resolved. Without `use` if the client leaves while it is held. */
  repeat(params: JsonObject, use: (round: RoundOutcome) => Promise<void>): Promise<void>
}

/** The outcome that the client gets: a result that asks for input is replaced by requests to the client, and a later result. */
export function withInputRounds(outcome: Completed, rounds: InputRounds): Completed {
  const { body, headers } = outcome
  if (isStream(body)) return { ...outcome, body: streamOf(body, () => chunksOf(body, rounds, 1)) }
  const asked = askedIn(shownMessage(body)?.message)
  if (asked === undefined) return outcome
  const stream = streamOf({}, () => nextRound(asked, rounds, 1))
  return { ...outcome, headers: { ...headers, ...eventStreamHeaders }, body: stream }
}

function streamOf(
  { drainWhenAbandoned = false }: Pick<ResponseStream, 'drainWhenAbandoned'>,
  chunks: () => AsyncGenerator<ResponseChunk>,
): ResponseStream {
  return { drainWhenAbandoned, [Symbol.asyncIterator]: chunks }
}

async function* chunksOf(
  body: ResponseStream,
  rounds: InputRounds,
  round: number,
): AsyncGenerator<ResponseChunk> {
  let asked: Asked | undefined
  for await (const chunk of body) {
    asked = askedIn(shownEvent(chunk.bytes).message)
    if (asked !== undefined) break
    yield chunk
  }
  if (asked !== undefined) yield* nextRound(asked, rounds, round)
}

/** A result that asks for input. */
interface Asked {
  readonly requests: readonly (readonly [key: string, request: JsonObject])[]
  readonly state: JsonValue | undefined
}

export function askedIn({ result }: Fields = {}): Asked | undefined {
  if (!asksForInput(result)) return undefined
  const { inputRequests, requestState } = result as JsonObject
  const requests = Object.entries(isJsonObject(inputRequests) ? inputRequests : {}).map(
    ([key, request]) => [key, isJsonObject(request) ? request : {}] as const,
  )
  return { requests, state: requestState }
}

async function* nextRound(
  { requests, state }: Asked,
  rounds: InputRounds,
  round: number,
): AsyncGenerator<ResponseChunk> {
  const { session, asked } = rounds
  const refused = (message: string): ResponseChunk => ({
    bytes: eventOf(stringifyJson(rpcError(rounds.id, rpcCodes.internalError, message))),
  })
  if (round > maxRounds || requests.length > maxRequests)
    return yield refused('The server asks for input too often.')
  const isKnown = requests.every(([, { method }]) => mayBeAsked(session, method))
  if (!isKnown) return yield refused('The server asks for input that the client cannot give.')
  const { signal, release } = rounds.hold()
  const waiting = AbortSignal.any([signal, AbortSignal.timeout(maxWaitMs)])
  const asking = requests.map(([key, { method, params = {} }]) => {
    const id = asked.nextId()
    const event = eventOf(stringifyJson({ jsonrpc: '2.0', id, method, params }))
    let send: () => void = () => undefined
    const mayBeSent = new Promise<void>((resolve) => {
      send = resolve
    })
    const response = asked.responseTo(session.id, id, { signal: waiting, send: async () => send() })
    return { key, event, mayBeSent, response }
  })
  // It must not reject: a client that reads slowly may leave before it has got all requests, and nothing waits for it then.
  const given = Promise.all(asking.map(async ({ key, response }) => [key, await response] as const)).catch(
    () => undefined,
  )
  try {
    for (const { event, mayBeSent } of asking) {
      await Promise.race([mayBeSent, given])
      yield { bytes: event }
    }
    yield* commentsUntil(given)
  } finally {
    release()
  }
  const responses = await given
  // A client that has left or cancelled the request gets no response.
  if (signal.aborted) return
  if (responses === undefined) return yield refused('The client did not give the input in time.')
  const [error] = responses.flatMap(([, response]) => response['error'] ?? [])
  if (error !== undefined)
    return yield { bytes: eventOf(stringifyJson({ jsonrpc: '2.0', id: rounds.id, error })) }
  const inputResponses = Object.fromEntries(
    responses.map(([key, response]) => [key, response['result'] ?? {}]),
  )
  yield* repeated(
    {
      ...(requests.length === 0 ? {} : { inputResponses }),
      ...(state === undefined ? {} : { requestState: state }),
    },
    rounds,
    round + 1,
  )
}

/** Whether the client has the capability for a request of a server. */
export function mayBeAsked({ askable }: FederationSession, method: unknown): boolean {
  const needed =
    typeof method === 'string' && Object.hasOwn(capabilities, method) ? capabilities[method] : undefined
  return needed !== undefined && askable[needed] !== undefined
}

const comment = Buffer.from(': waiting for input\n\n')

/** `work` must not reject. */
async function* commentsUntil(work: Promise<unknown>): AsyncGenerator<ResponseChunk> {
  const isDone = work.then(() => true)
  for (;;) {
    let timer: NodeJS.Timeout | undefined
    const silence = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), keepAliveMs).unref()
    })
    const done = await Promise.race([isDone, silence])
    clearTimeout(timer)
    if (done) return
    yield { bytes: comment }
  }
}

/** The chunks of the repeated call, which ends when they are read. */
async function* repeated(
  params: JsonObject,
  rounds: InputRounds,
  round: number,
): AsyncGenerator<ResponseChunk> {
  let begin: (begun: RoundOutcome) => void = () => undefined
  let end: () => void = () => undefined
  const begun = new Promise<RoundOutcome>((resolve) => {
    begin = resolve
  })
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const running = rounds.repeat(params, (outcome) => {
    begin(outcome)
    return ended
  })
  try {
    const first = await Promise.race([begun, running])
    if (first === undefined) return
    const { outcome } = first
    if (outcome.kind === 'completed' && isStream(outcome.body)) {
      yield* chunksOf(outcome.body, rounds, round)
      return
    }
    const { response } = await first.response()
    const asked = askedIn(response?.message)
    if (asked !== undefined) yield* nextRound(asked, rounds, round)
    else if (response !== undefined) yield { bytes: eventOf(response.text) }
  } finally {
    end()
    await running
  }
}
