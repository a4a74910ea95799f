// Holds calls that wait for a person: the client of a session is asked on the stream of its call, and the gateway repeats the
// call once it is decided. Each repetition is a call of its own, judged anew under the policy in force: what has changed since
// the first is not sent.

import { setMaxListeners } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type Call,
  isRefusal,
  isStream,
  type MaybePromise,
  type Outcome,
  resolveOptional,
  services,
} from '@svc/core'
import { eventOf } from '@svc/core/http'
import type { JsonObject } from '@svc/core/json'
import { defined, stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { escalationService } from '@svc/plugin-enforcement'
import { type ClientExchange, writeOutcome } from '../../http/client-exchange.js'
import { eventStreamHeaders } from '../../http/event-stream-rules.js'
import { InFlight } from '../../http/in-flight.js'
import type { ClientRequests } from '../../mcp/client-requests.js'
import {
  type AskedClient,
  actionOf,
  confirmationOf,
  type Elicitation,
  elicitationOf,
  elicitationParams,
  type GatewayRounds,
} from '../../mcp/elicitation.js'
import { type ElicitationResponse, isClientStateless, mcpExchange, takesEvents } from '../../mcp/exchange.js'
import type { Encoding } from '../../mcp/message-outcome.js'
import type { PoliciesInForce } from '../../policy/active-policy.js'
import { callerKey, traceparentOf } from '../../upstream/send.js'

/** Calls of one caller, and of all, that are held at a time; the response to another does not wait. */
const maxHeldOfCaller = 20
const maxHeld = 1_000
/** A larger call counts as several, because its message is kept for the repetition. */
const bytesOfOne = 65_536
/** Time between two notifications of progress, in milliseconds. */
const progressMs = 5_000
/** Time after which a store that failed is read again, in milliseconds. */
const storeRetryMs = 500

interface HeldCallsOptions {
  readonly requests: ClientRequests
  readonly rounds: GatewayRounds
  /** The longest time that a call is held, in milliseconds; 0 if nobody is asked. */
  readonly maxHoldMs: number
  readonly keepAliveMs: number
  readonly policies: PoliciesInForce
}

/** Writes the response of a call. */
export type WriteOutcome<E extends Encoding> = (
  call: CallControl,
  outcome: Outcome,
  encoding: E,
) => MaybePromise<void>

/** Runs the call, or repeats it. Resolves to it if its response is not written because it waits for a person. */
type Run = (elicited?: ElicitationResponse) => Promise<Attempt | undefined>

export class HeldCalls {
  #options: HeldCallsOptions
  #held = new Map<string, number>()
  #writing = new InFlight<true>()
  #closing = new AbortController()
  #count = 0

  constructor(options: HeldCallsOptions) {
    this.#options = options
    setMaxListeners(0, this.#closing.signal)
  }

  /** Whether the person at the client can be asked for what the call lacks, so that its response waits. */
  asks(call: Call, outcome: Outcome): boolean {
    return outcome.kind === 'denied' && this.#elicitationOf(call, outcome) !== undefined
  }

  /** Ends every wait; resolves when each held call has its response, or after `withinMs`. */
  close(withinMs: number): Promise<void> {
    this.#closing.abort()
    return this.#writing.idle(withinMs)
  }

  /** Runs the call of a client by `send`, and repeats it, until `respond` has written a response. */
  async serve<E extends Encoding>(
    client: ClientExchange,
    send: (elicited: ElicitationResponse | undefined, respond: WriteOutcome<E>) => Promise<void>,
    respond: WriteOutcome<E>,
    clientOf: (call: CallControl) => AskedClient,
  ): Promise<void> {
    const attempts: Attempt[] = []
    const take: WriteOutcome<E> = (call, outcome, encoding) => {
      if (outcome.kind !== 'denied' || !this.asks(call, outcome)) return respond(call, outcome, encoding)
      const write = (): MaybePromise<void> => respond(call, outcome, encoding)
      attempts.push({ ...attemptOf(client, call, outcome, encoding), write })
    }
    await send(undefined, take)
    const first = attempts.pop()
    if (first === undefined) return
    await this.#hold(clientOf(first.call), first, async (elicited) => {
      await send(elicited, take)
      return attempts.pop()
    })
  }

  /** Runs the call, and repeats it with what the person at the client replies, until there is a response. */
  async run(run: Run, clientOf: (call: CallControl) => AskedClient): Promise<void> {
    const first = await run()
    if (first !== undefined) await this.#hold(clientOf(first.call), first, run)
  }

  async #hold(client: AskedClient, first: Attempt, run: Run): Promise<void> {
    const place = this.#writing.add(true)
    const { call } = first
    const { bytes = 0 } = call.parsedRequest ?? {}
    const release = this.#take(callerKey(call), 1 + Math.floor(bytes / bytesOfOne))
    const ended = new AbortController()
    const end = (): void => ended.abort()
    const timer = setTimeout(end, this.#options.maxHoldMs)
    const stopListening = client.exchange.onDisconnect(end)
    const { signal: closing } = this.#closing
    for (const signal of [client.cancelled, closing]) signal.addEventListener('abort', end)
    const isOver = (): boolean => client.cancelled.aborted || closing.aborted
    if (client.exchange.isDisconnected || isOver() || release === undefined) end()
    try {
      let attempt: Attempt | undefined = first
      while (attempt !== undefined) {
        const elicited = await this.#elicit(client, attempt, ended.signal)
        if (client.exchange.isDisconnected) return
        if (elicited === 'asked') return
        // A call that its client has cancelled is not repeated, even if it was decided at the same moment.
        if (elicited === undefined || isOver()) return await attempt.write()
        attempt = await run(elicited)
      }
    } finally {
      clearTimeout(timer)
      stopListening()
      for (const signal of [client.cancelled, closing]) signal.removeEventListener('abort', end)
      release?.()
      client.release?.()
      this.#writing.delete(place)
    }
  }

  #elicitationOf(call: Call, outcome: Outcome): Elicitation | undefined {
    if (this.#options.maxHoldMs === 0) return undefined
    const pageOf = resolveOptional(this.#options.policies.current.container, services.approvalPage)
    return elicitationOf(call, outcome, pageOf)
  }

  /** Undefined if the caller would have more held calls than it may have. */
  #take(caller: string, calls: number): (() => void) | undefined {
    const own = this.#held.get(caller) ?? 0
    if (own + calls > maxHeldOfCaller || this.#count + calls > maxHeld) return undefined
    this.#held.set(caller, own + calls)
    this.#count += calls
    return () => {
      const left = (this.#held.get(caller) ?? calls) - calls
      if (left === 0) this.#held.delete(caller)
      else this.#held.set(caller, left)
      this.#count -= calls
    }
  }

  /** Undefined if nobody responded, and the call has its response; `asked` if the client repeats the call itself. */
  async #elicit(
    client: AskedClient,
    { call, outcome, writeResult }: Attempt,
    signal: AbortSignal,
  ): Promise<ElicitationResponse | 'asked' | undefined> {
    const elicitation = this.#elicitationOf(call, outcome)
    if (elicitation === undefined) return undefined
    const exchange = call.need(mcpExchange)
    if (!isClientStateless(exchange)) {
      return signal.aborted ? undefined : this.#ask(client, call, elicitation, signal)
    }
    const { elicited } = exchange
    if (elicitation.kind === 'approval' && elicited?.escalationId === elicitation.escalationId) {
      if (elicited.opened !== true || signal.aborted) return undefined
      return this.#whileWaiting(client, call, async () =>
        (await this.#isDecided(elicitation.escalationId, signal))
          ? { escalationId: elicitation.escalationId }
          : undefined,
      )
    }
    const result = await this.#options.rounds.resultFor(call, exchange, elicitation)
    if (result === undefined) return undefined
    await writeResult(result)
    return 'asked'
  }

  /** Asks the client of a session on the stream of its call. */
  #ask(
    client: AskedClient,
    call: Call,
    elicitation: Elicitation,
    signal: AbortSignal,
  ): Promise<ElicitationResponse | undefined> {
    return this.#whileWaiting(client, call, async () => {
      const { requests } = this.#options
      const id = requests.nextId()
      const over = new AbortController()
      const until = AbortSignal.any([signal, over.signal])
      let isOpen = false
      const params = elicitationParams(elicitation, false)
      const ask = async (): Promise<void> => {
        if (until.aborted) return
        isOpen = true
        await send(client, { id, method: 'elicitation/create', params })
      }
      const replying = requests.responseTo(client.name, id, { signal: until, send: ask }).then(
        (reply) => {
          isOpen = false
          return reply
        },
        (error: unknown) => {
          // The wait is over, or the response cannot be read: then it has no effect.
          if (until.aborted || isRefusal(error)) return undefined
          throw error
        },
      )
      const { escalationId } = call.need(mcpExchange).elicited ?? {}
      const waiting =
        elicitation.kind === 'approval'
          ? this.#approval(client, elicitation.escalationId, replying, until)
          : replying.then((reply) => ({
              ...defined({ escalationId }),
              confirmation: {
                sha256: elicitation.sha256,
                action: reply === undefined ? ('none' as const) : confirmationOf(reply['result']),
              },
            }))
      try {
        return await waiting
      } finally {
        over.abort()
        const cancelled = { requestId: id, reason: 'The call no longer waits.' }
        if (isOpen) await send(client, { method: 'notifications/cancelled', params: cancelled })
      }
    })
  }

  /** Waits for the decision, while the person wants the page: to accept is to open it. */
  async #approval(
    client: AskedClient,
    escalationId: string,
    replying: Promise<JsonObject | undefined>,
    signal: AbortSignal,
  ): Promise<ElicitationResponse | undefined> {
    const refused = replying.then((reply) =>
      reply === undefined || actionOf(reply['result']) === 'accept'
        ? new Promise<never>(() => undefined)
        : false,
    )
    const isDecided = await Promise.race([this.#isDecided(escalationId, signal), refused])
    if (!isDecided) return undefined
    await send(client, {
      method: 'notifications/elicitation/complete',
      params: { elicitationId: escalationId },
    })
    return { escalationId }
  }

  /** Whether the repeated call will have another response: the escalation is decided, or it is not readable. */
  async #isDecided(escalationId: string, signal: AbortSignal): Promise<boolean> {
    const { policies } = this.#options
    while (!signal.aborted && !policies.isDraining) {
      try {
        const policy = policies.current
        const found = await policy.wait((ended) => {
          const escalations = resolveOptional(policy.container, escalationService)
          return escalations?.wait(escalationId, this.#options.maxHoldMs, AbortSignal.any([signal, ended]))
        })
        if (found?.status !== 'pending') return true
      } catch (error) {
        // The response to the repeated call says why.
        if (!isRefusal(error) || error.code !== 'STORE_UNAVAILABLE') return true
        // The person still decides: a store that is silent for a moment does not end the wait.
        await delay(storeRetryMs, undefined, { signal }).catch(() => undefined)
      }
    }
    return false
  }

  /** Keeps the connection in use, and the client's time limit from passing. */
  async #whileWaiting<T>(client: AskedClient, call: Call, wait: () => Promise<T>): Promise<T> {
    const { exchange, progressToken } = client
    if (!begin(client, call)) return wait()
    let progress = 0
    const tick = (): void => {
      if (progressToken === undefined) {
        exchange.keepAlive()
        return
      }
      // Small, as the server's own progress follows and must be larger.
      progress += 1e-6
      const params = { progressToken, progress, message: 'Waiting for a person to decide' }
      void send(client, { method: 'notifications/progress', params })
    }
    const timer = setInterval(tick, progressToken === undefined ? this.#options.keepAliveMs : progressMs)
    try {
      return await wait()
    } finally {
      clearInterval(timer)
    }
  }
}

/** Begins the stream of the call. False if the client takes no stream. */
function begin({ exchange }: AskedClient, call: Call): boolean {
  if (exchange.isBegun) return true
  if (exchange.isDisconnected) return false
  if (!takesEvents({ headers: exchange.headers, isHeaderless: exchange.http === undefined })) return false
  const { traceId, spanId } = call.trace
  exchange.begin(200, {
    ...eventStreamHeaders,
    'x-trace-id': traceId,
    'x-span-id': spanId,
    traceparent: traceparentOf(call),
  })
  exchange.keepAlive()
  return true
}

async function send({ exchange }: AskedClient, message: JsonObject): Promise<void> {
  if (!exchange.isDisconnected) await exchange.write(eventOf(stringifyJson({ jsonrpc: '2.0', ...message })))
}

// An attempt of a call that a person may be asked about: its response is written as it stands, or another result in its place.

/** A call that was not sent. */
export interface Attempt {
  readonly call: CallControl
  readonly outcome: Outcome
  /** Writes the response that the client then gets. */
  write(): MaybePromise<void>
  /** Writes a result in place of the response. */
  writeResult(result: object): MaybePromise<void>
}

/** The attempt whose response is not written yet. */
export function attemptOf(
  client: ClientExchange,
  call: CallControl,
  outcome: Outcome,
  encoding: Encoding,
): Attempt {
  const write = (): MaybePromise<void> => writeAttempt(client, call, outcome, encoding)
  return {
    call,
    outcome,
    write,
    async writeResult(result) {
      const { id = null } = call.need(mcpExchange)
      const body = stringifyJson({ jsonrpc: '2.0', id, result })
      if (client.isBegun) await writeLast(client, body)
      else client.whole({ status: 200, headers: { 'content-type': 'application/json' }, body }, call)
    },
  }
}

/** Writes the outcome as the response, or into the stream that has begun. */
export async function writeAttempt(
  client: ClientExchange,
  call: CallControl,
  outcome: Outcome,
  { encode, response }: Encoding,
): Promise<void> {
  const isStreamed = outcome.kind === 'completed' && isStream(outcome.body)
  if (!client.isBegun || isStreamed) return writeOutcome(client, call, outcome, encode)
  await writeLast(client, (await response(outcome, call)).response?.text ?? '')
}

async function writeLast(client: ClientExchange, text: string): Promise<void> {
  await client.write(eventOf(text))
  client.end()
}
