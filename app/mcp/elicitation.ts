// The questions to the person at the client about a call that was not sent, and the requests by which a client asks them.

import { randomBytes } from 'node:crypto'
import type { Call, MaybePromise, Outcome } from '@svc/core'
import { isJsonNumber, isJsonObject, type JsonObject, type JsonValue, visibleInLine } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import type { ClientExchange } from '../http/client-exchange.js'
import { callerKey } from '../upstream/send.js'
import {
  type Confirmation,
  type ElicitationResponse,
  type McpExchange,
  mcpExchange,
  modesOf,
} from './exchange.js'
import { invalidParams, type RpcRequest } from './message.js'
import type { Fields } from './rpc-response.js'
import { type SessionBinding, stateTtlMs } from './session-binding.js'
import type { SharedState } from './shared-state.js'

/** An escalation, which reviewers decide on its page, or a form for the person at the client. */
export type Elicitation =
  | {
      readonly kind: 'approval'
      readonly escalationId: string
      readonly message: string
      readonly url: string
    }
  | { readonly kind: 'confirmation'; readonly sha256: string; readonly message: string }

/** The client of a held call. */
export interface AskedClient {
  /** Names the client in its session, which alone may respond. */
  readonly name: string
  readonly exchange: ClientExchange
  readonly progressToken: JsonValue | undefined
  /** Fires when the client cancels its request. */
  readonly cancelled: AbortSignal
  /** Ends the wait for a cancellation. */
  release?(): void
}

/** Undefined if nobody at the client can be asked. `pageOf` has the pages of escalations. */
export function elicitationOf(
  call: Call,
  outcome: Outcome,
  pageOf: ((escalationId: string) => string | undefined) | undefined,
): Elicitation | undefined {
  if (outcome.kind !== 'denied') return undefined
  const { code, confirmation, escalation } = outcome
  const exchange = call.get(mcpExchange)
  if (exchange === undefined) return undefined
  if (confirmation !== undefined) {
    return modesOf(exchange).form ? { kind: 'confirmation', ...confirmation } : undefined
  }
  if (code !== 'ESCALATION_PENDING' || escalation?.status !== 'pending' || !modesOf(exchange).url) {
    return undefined
  }
  const url = pageOf?.(escalation.id)
  if (url === undefined) return undefined
  return { kind: 'approval', escalationId: escalation.id, message: approvalMessage(call), url }
}

/** The text for the person at the client, whose consent is not an approval. */
function approvalMessage(call: Call): string {
  const { server, name } = call.parsedRequest ?? { server: '', name: '' }
  const reasons = call
    .judgedFindings()
    .flatMap(({ effect, reason, detail }) => (effect === 'escalate' ? (detail ?? reason) : []))
  return visibleInLine(
    `${server}/${name} waits for an approval: ${reasons.join('; ')}. The page shows its state; to open it approves nothing.`,
  )
}

/** The params of `elicitation/create`. From 2026-07-28 on an elicitation has no id. */
export function elicitationParams(elicitation: Elicitation, isStateless: boolean): JsonObject {
  const { message } = elicitation
  if (elicitation.kind === 'approval') {
    const { url, escalationId } = elicitation
    return { mode: 'url', message, url, ...(isStateless ? {} : { elicitationId: escalationId }) }
  }
  return { mode: 'form', message, requestedSchema: confirmationSchema }
}

/** A client that fills in defaults by itself does not confirm. */
const confirmationSchema: JsonObject = {
  type: 'object',
  properties: { confirm: { type: 'boolean', title: 'Yes, do this', default: false } },
  required: ['confirm'],
}

type Action = Confirmation['action']

/** The action of a client's result; `cancel` for one that is not a valid result. */
export function actionOf(result: unknown): Exclude<Action, 'none'> {
  const { action } = fieldsOf(result)
  return action === 'accept' || action === 'decline' ? action : 'cancel'
}

/** The action of a confirmation: to accept a form without its tick is to decline. */
export function confirmationOf(result: unknown): Exclude<Action, 'none'> {
  const action = actionOf(result)
  if (action !== 'accept') return action
  return fieldsOf(fieldsOf(result)['content'])['confirm'] === true ? 'accept' : 'decline'
}

function fieldsOf(value: unknown): Fields {
  return isJsonObject(value) ? value : {}
}

/** The token by which a request asks for notifications of progress. */
export function progressTokenOf(params: unknown): JsonValue | undefined {
  const meta = isJsonObject(params) ? params['_meta'] : undefined
  const token = isJsonObject(meta) ? meta['progressToken'] : undefined
  return typeof token === 'string' || isJsonNumber(token) ? token : undefined
}

// Results of the gateway that ask for input (2026-07-28, `input_required`), and the requests that a client repeats with it. The
// gateway's own state and responses are taken out before a request is judged and hashed: what remains is the request that waits.

/** The state of a server does not begin with it, or is refused. */
const prefix = 'svc1.'
const PURPOSE = 'svc elicitation state 1'
/** The key of the gateway's one request in `inputRequests`. */
const KEY = 'svc'
/** Length of the client's input for the server that a state may carry. */
const maxServerPart = 16_384

interface RoundState {
  readonly escalationId?: string
  /** SHA-256 of the confirmation that was asked for. */
  readonly confirmation?: string
  /** A confirmation counts once. */
  readonly nonce: string
  /** The process that may take the confirmation, if gateways share no store that knows which were taken. */
  readonly process?: string
  /** The params of the client's own round with the server. */
  readonly round: JsonObject
}

export class GatewayRounds {
  #state: SharedState
  #sessions: () => MaybePromise<SessionBinding>
  #taken: SharedMap
  readonly #process = randomBytes(8).toString('hex')

  /** `sessions` has the key from which that of states is derived. */
  constructor(state: SharedState, sessions: () => MaybePromise<SessionBinding>) {
    this.#state = state
    this.#sessions = sessions
    this.#taken = state.map('mcp-confirmations', { ttlMs: stateTtlMs, maxEntries: 10_000 })
  }

  /** The result by which the client is asked; undefined if its input for the server is too long to come back. */
  async resultFor(
    call: Call,
    { message, elicited }: McpExchange,
    elicitation: Elicitation,
  ): Promise<Fields | undefined> {
    if (message?.type !== 'request') return undefined
    const { inputResponses, requestState } = message.params
    const round = {
      ...(inputResponses === undefined ? {} : { inputResponses }),
      ...(requestState === undefined ? {} : { requestState }),
    }
    if (JSON.stringify(round).length > maxServerPart) return undefined
    const escalationId = elicitation.kind === 'approval' ? elicitation.escalationId : elicited?.escalationId
    const state: RoundState = {
      ...(escalationId === undefined ? {} : { escalationId }),
      ...(elicitation.kind === 'approval' ? {} : { confirmation: elicitation.sha256 }),
      ...(elicitation.kind === 'approval' || this.#state.isShared ? {} : { process: this.#process }),
      nonce: randomBytes(16).toString('base64url'),
      round,
    }
    const sealed = (await this.#sessions()).states<RoundState>(PURPOSE).seal(call, message, state)
    const asked = { method: 'elicitation/create', params: elicitationParams(elicitation, true) }
    return {
      resultType: 'input_required',
      inputRequests: { [KEY]: asked },
      requestState: `${prefix}${sealed}`,
    }
  }

  /**
   * The request without the gateway's part, and what the person replied; undefined for one without such a part. `given` is
   * set if the gateway itself repeats the request.
   */
  opened(
    call: Call,
    message: RpcRequest,
    given?: ElicitationResponse,
  ): Promise<{ readonly message: RpcRequest; readonly elicited: ElicitationResponse }> | undefined {
    const { requestState } = message.params
    return typeof requestState === 'string' && requestState.startsWith(prefix)
      ? this.#opened(call, message, requestState.slice(prefix.length), given)
      : undefined
  }

  async #opened(call: Call, message: RpcRequest, sealed: string, given: ElicitationResponse | undefined) {
    const state = (await this.#sessions()).states<RoundState>(PURPOSE).open(call, message, sealed)
    const { requestState: _, inputResponses = {}, ...others } = message.params
    if (state === undefined) throw invalidParams('requestState: not one of this request.')
    if (!isJsonObject(inputResponses) || Object.keys(inputResponses).some((key) => key !== KEY)) {
      throw invalidParams('inputResponses: more than what was asked.')
    }
    const params = { ...others, ...state.round }
    return {
      message: { ...message, params, whole: { ...message.whole, params } },
      elicited: given ?? (await this.#responseOf(call, state, inputResponses[KEY])),
    }
  }

  async #responseOf(call: Call, state: RoundState, result: unknown): Promise<ElicitationResponse> {
    const { escalationId, confirmation: sha256, nonce, process } = state
    const named = escalationId === undefined ? {} : { escalationId }
    if (sha256 === undefined) return { ...named, opened: actionOf(result) === 'accept' }
    if (process !== undefined && process !== this.#process) {
      throw invalidParams('requestState: confirmed at another gateway, with which this one shares no store.')
    }
    if ((await this.#taken.add(callerKey(call), nonce, '1')) !== undefined) {
      throw invalidParams('requestState: its confirmation was for one call, and has been used.')
    }
    return { ...named, confirmation: { sha256, action: confirmationOf(result) } }
  }
}
