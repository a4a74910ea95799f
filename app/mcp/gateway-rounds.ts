// Results of the gateway that ask for input (2026-07-28, `input_required`), and the requests that a client repeats with it. The
// gateway's own state and responses are taken out before a request is judged and hashed: what remains is the request that waits.
import { randomBytes } from 'node:crypto'
import type { Call, Clock, MaybePromise } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { callerKey } from '../upstream/send.js'
import { actionOf, confirmationOf, type Elicitation, elicitationParams } from './elicitation.js'
import type { ElicitationResponse, McpExchange } from './exchange.js'
import type { RpcRequest } from './message.js'
import { invalidParams } from './message.js'
import type { Fields } from './rpc-response.js'
import { RequestStates, type SessionBinding, stateTtlMs } from './session-binding.js'
import type { SharedState } from './shared-state.js'

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
  #clock: Clock
  #sessions: () => MaybePromise<SessionBinding>
  #taken: SharedMap
  #states: RequestStates<RoundState> | undefined
  readonly #process = randomBytes(8).toString('hex')

  /** `sessions` has the key from which that of states is derived. */
  constructor(state: SharedState, clock: Clock, sessions: () => MaybePromise<SessionBinding>) {
    this.#state = state
    this.#clock = clock
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
    const sealed = (await this.#sealing()).seal(call, message, state)
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
    const state = (await this.#sealing()).open(call, message, sealed)
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

  async #sealing(): Promise<RequestStates<RoundState>> {
    const sessions = await this.#sessions()
    this.#states ??= new RequestStates(sessions.deriveKey(PURPOSE), this.#clock)
    return this.#states
  }
}
