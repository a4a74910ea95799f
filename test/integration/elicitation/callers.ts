// A call that its client drives by hand, of either kind of revision: what it is asked, and what can be done to it.
import { type HandCall, type HandClient, type Round, roundAt, startHandClient } from './hand-client.js'
import type { Elicited } from './rig.js'

type Result = Round | { readonly result?: unknown; readonly error?: Round['error'] }

/** What one client does to one call. The amount tells calls apart. */
export interface DrivenCall {
  /** The escalations that its client was told of. */
  readonly escalations: ReadonlySet<string>
  /** The elicitation that has no response yet. */
  asked(): Elicited | undefined
  /** The elicitations that its client got. */
  readonly asks: number
  /** Names the form to which `respond` responds. */
  formOf(how: Tampering): string
  /** Sends the response to it; of another `amount` as a part of another call. */
  respond(response: object, how?: Tampering): Promise<void>
  /** Waits until the call has its response, or is asked once more. */
  settle(): Promise<void>
  /** Ends the call from outside. */
  stop(how: 'cancel' | 'leave' | 'end the session' | 'reuse the id'): Promise<void>
  /** Every response that its client got. */
  readonly responses: readonly Result[]
}

export const tamperings = [
  'none',
  'another amount',
  'another caller',
  'another session',
  'truncated',
  'flipped',
  'twice',
  'more responses',
  'other keys',
  'no response',
  'other _meta',
  'another policy',
  'an earlier state',
] as const
export type Tampering = (typeof tamperings)[number]

export interface DrivenClient {
  begin(amount: number, meta?: object): Promise<DrivenCall>
}

export interface Endpoint {
  readonly url: string
  /** The same at a gateway with another revision of the policy. */
  readonly elsewhere: string
  readonly tool: string
}

const escalationsIn = (value: unknown): string[] => JSON.stringify(value).match(/esc_[0-9a-f]{32}/g) ?? []

export async function handshakeClient(
  { url, elsewhere, tool }: Endpoint,
  { headers, other, capabilities, revision }: DrivenBy,
): Promise<DrivenClient> {
  const client = await startHandClient(url, headers, capabilities, revision)
  return {
    async begin(amount, meta) {
      const call = await client.call(tool, { amount }, meta)
      const driven = new HandshakeCall(client, call, () => client.call(tool, { amount }, meta, call.id), {
        other: () => startHandClient(url, other, capabilities, revision),
        second: () => startHandClient(url, headers, capabilities, revision),
        elsewhere,
      })
      await driven.settle()
      return driven
    },
  }
}

interface DrivenBy {
  readonly headers: Record<string, string>
  /** Headers of another caller. */
  readonly other: Record<string, string>
  readonly capabilities: object
  readonly revision: string
}

interface Others {
  other(): Promise<HandClient>
  second(): Promise<HandClient>
  readonly elsewhere: string
}

class HandshakeCall implements DrivenCall {
  readonly escalations = new Set<string>()
  readonly responses: Result[] = []
  #client: HandClient
  #call: HandCall
  #again: () => Promise<HandCall>
  #others: Others
  asks = 0
  #read = 0
  #asked: { readonly id: string; readonly params: Elicited } | undefined
  #first: string | undefined

  constructor(client: HandClient, call: HandCall, again: () => Promise<HandCall>, others: Others) {
    this.#client = client
    this.#call = call
    this.#again = again
    this.#others = others
  }

  asked(): Elicited | undefined {
    return this.#asked?.params
  }

  formOf(how: Tampering): string {
    return (how === 'an earlier state' ? this.#first : this.#asked?.id) ?? ''
  }

  async settle(): Promise<void> {
    for (;;) {
      const message = await this.#call.after(this.#read)
      if (message === undefined) return
      this.#read++
      for (const id of escalationsIn(message)) this.escalations.add(id)
      if (message.method === 'elicitation/create') {
        this.asks++
        this.#asked = { id: message.id ?? '', params: message.params }
        this.#first ??= this.#asked.id
        return
      }
      if (message.method === 'notifications/cancelled') this.#asked = undefined
      if (message.result === undefined && message.error === undefined) continue
      this.responses.push(message)
      return
    }
  }

  async respond(response: object, how: Tampering = 'none'): Promise<void> {
    const asked = this.#asked
    if (asked === undefined) return
    const message = { jsonrpc: '2.0', id: this.formOf(how), ...response }
    const { other, second, elsewhere } = this.#others
    if (how === 'another caller') return void (await (await other()).post(message, this.#client.sessionId))
    if (how === 'another session') return void (await (await second()).post(message))
    if (how === 'truncated' || how === 'flipped' || how === 'other keys') {
      const id = how === 'truncated' ? asked.id.slice(0, -1) : `${asked.id.slice(0, -1)}g`
      return void (await this.#client.post({ ...message, id: how === 'other keys' ? 1 : id }))
    }
    if (how === 'no response') return
    if (message.id !== asked.id) return void (await this.#client.post(message))
    this.#asked = undefined
    await this.#client.post(message, undefined, how === 'another policy' ? elsewhere : undefined)
    if (how === 'twice') await this.#client.post(message)
  }

  async stop(how: Parameters<DrivenCall['stop']>[0]): Promise<void> {
    const { id } = this.#call
    if (how === 'leave') {
      this.#call.leave()
    } else if (how === 'cancel') {
      const params = { requestId: id }
      await this.#client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
    } else if (how === 'end the session') await this.#client.end()
    else {
      const again = await this.#again()
      const first = await again.after(0)
      if (first?.error !== undefined) this.responses.push(first)
      again.leave()
    }
  }
}

export async function statelessClient(
  { url, elsewhere, tool }: Endpoint,
  { headers, other, capabilities }: DrivenBy,
): Promise<DrivenClient> {
  const own = roundAt(url, tool, headers, capabilities)
  const foreign = roundAt(url, tool, other, capabilities)
  const revised = roundAt(elsewhere, tool, headers, capabilities)
  const states: string[] = []
  return {
    async begin(amount, meta) {
      const driven = new StatelessCall({ own, foreign, revised, states }, amount, meta)
      await driven.send()
      return driven
    },
  }
}

/** Rounds of the caller, of another one, and at the gateway with another policy; and every state of the client so far. */
interface Rounds {
  readonly own: ReturnType<typeof roundAt>
  readonly foreign: ReturnType<typeof roundAt>
  readonly revised: ReturnType<typeof roundAt>
  readonly states: string[]
}

class StatelessCall implements DrivenCall {
  readonly escalations = new Set<string>()
  readonly responses: Result[] = []
  #rounds: Rounds
  #amount: number
  #meta: object | undefined
  asks = 0
  #last: Round | undefined

  constructor(rounds: Rounds, amount: number, meta: object | undefined) {
    this.#rounds = rounds
    this.#amount = amount
    this.#meta = meta
  }

  asked(): Elicited | undefined {
    return this.#last?.result?.inputRequests?.svc.params as Elicited | undefined
  }

  formOf(how: Tampering): string {
    const first = how === 'an earlier state' ? this.#rounds.states[0] : undefined
    return first ?? this.#last?.result.requestState ?? ''
  }

  async settle(): Promise<void> {
    // The client has each response when its request resolves.
  }

  async send(params: object = {}): Promise<void> {
    const { own } = this.#rounds
    this.#take(await own({ arguments: { amount: this.#amount }, ...params }, this.#meta))
  }

  #take(round: Round): void {
    for (const id of escalationsIn(round)) this.escalations.add(id)
    if (round.result?.requestState === undefined) this.responses.push(round)
    else {
      this.asks++
      this.#last = round
      this.#rounds.states.push(round.result.requestState)
    }
  }

  async respond(response: object, how: Tampering = 'none'): Promise<void> {
    if (this.asked() === undefined) return
    const { own, foreign, revised } = this.#rounds
    const requestState = this.formOf(how)
    const svc = 'result' in response ? response.result : response
    const inputResponses = { svc }
    const back = { requestState, inputResponses, arguments: { amount: this.#amount } }
    const { length } = requestState
    const flipped = `${requestState.slice(0, length - 3)}${requestState.at(-3) === 'A' ? 'B' : 'A'}${requestState.slice(-2)}`
    switch (how) {
      case 'another caller':
        return this.#take(await foreign(back))
      case 'another policy':
        return this.#take(await revised(back, this.#meta))
      case 'another amount':
        return this.#take(await own({ ...back, arguments: { amount: this.#amount + 1 } }))
      case 'truncated':
        return this.#take(await own({ ...back, requestState: requestState.slice(0, -4) }))
      case 'flipped':
        return this.#take(await own({ ...back, requestState: flipped }))
      case 'more responses':
        return this.#take(await own({ ...back, inputResponses: { ...inputResponses, more: svc } }))
      case 'other keys':
        return this.#take(await own({ ...back, inputResponses: { other: svc } }))
      case 'no response':
        return this.#take(await own({ requestState, arguments: { amount: this.#amount } }))
      case 'other _meta':
        return this.#take(await own(back, { 'com.example/of': 'another call' }))
      case 'twice': {
        const both = await Promise.all([own(back), own(back)])
        for (const one of both) this.#take(one)
        return
      }
      default:
        return this.#take(await own(back, this.#meta))
    }
  }

  async stop(): Promise<void> {
    // Between two rounds nothing of the call is held.
  }
}
