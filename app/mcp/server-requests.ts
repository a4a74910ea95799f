// The requests of servers to clients: messages on streams, and `inputRequests` of results (2026-07-28). The rules of the policy
// judge each before the client gets it, and each response of a client before the server gets it. Without rules all pass.
import {
  type AskedRequest,
  type Call,
  credential,
  isRefusedAsk,
  type MaybePromise,
  type ServerRequestRules,
  serverRequestRules,
} from '@svc/core'
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseExactObject,
  stringifyJson,
} from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import { isForGateway } from './client-requests.js'
import type { McpExchange } from './exchange.js'
import { listForms } from './lists.js'
import { invalidParams, isRequestId, type RpcRequest, type RpcResponse } from './message.js'
import { createRespond, createSend, type OwnRequestOptions } from './own-requests.js'
import { type RequestId, rpcCodes } from './protocol.js'
import { keepProtocolError } from './request.js'
import { type Fields, ProtocolViolation } from './rpc-response.js'
import { type RequestStates, type SessionBinding, serverSessionId } from './session-binding.js'
import type { SharedState } from './shared-state.js'
import { methodSkeleton } from './subject.js'

/** Requests in one result. */
const maxRequests = 20
/** Requests of a server that wait for one caller's responses, and how long they may wait, in milliseconds. */
const bounds = { ttlMs: 3_600_000, maxEntries: 1_000 }
/** Repeats a task with the client's responses; its state is the server's. */
const UPDATE = 'tasks/update'
const PURPOSE = 'svc requestState 1'
const CURSOR_PURPOSE = 'svc cursor 1'

interface CursorState {
  /** The server's own cursor. */
  readonly own: string
}

interface RequestState {
  /** The server's own state; undefined if it gave none. */
  readonly own: JsonValue | undefined
  /** The requests to the client, by the keys of `inputRequests`, so that any gateway can judge the responses. */
  readonly asked: Readonly<Record<string, AskedRequest>>
}

/** Without regard to what a lenient decoder leaves out. */
const asking: ReadonlySet<string> = new Set(
  ['sampling/createMessage', 'elicitation/create', 'roots/list'].map(methodSkeleton),
)

/** Whether a client could take the method for one that asks it for something. */
export function asksClients(method: unknown): boolean {
  return typeof method === 'string' && asking.has(methodSkeleton(method))
}

export class ServerRequests {
  #own: OwnRequestOptions
  #sessions: () => MaybePromise<SessionBinding>
  /** The requests to clients, by caller and session. */
  #asked: SharedMap

  /** `sessions` has the key from which that of states is derived. */
  constructor(own: OwnRequestOptions, state: SharedState, sessions: () => MaybePromise<SessionBinding>) {
    this.#own = own
    this.#sessions = sessions
    this.#asked = state.map('mcp-server-requests', bounds)
  }

  /** The request as the client gets it; undefined if it is refused, which the server then knows. */
  async shown(call: Call, exchange: McpExchange, message: Fields): Promise<Fields | undefined> {
    const rules = rulesFor(call, exchange)
    if (rules === undefined) return message
    const { id } = message
    if (!isRequestId(id)) {
      // Nobody could respond to it; the record says that it was sent.
      await rules.judge(call, { method: '', params: {} })
      return undefined
    }
    const request = requestIn(message)
    const judged = await rules.judge(call, request)
    if (isRefusedAsk(judged)) return this.refuse(call, exchange, id)
    await this.#keepAsked(call, exchange, id, judged)
    return judged === request ? message : { ...message, params: judged.params }
  }

  /**
   * A result, or the params of a notification, with what it asks as the client gets it. A refused request denies the call,
   * as nothing tells the server.
   */
  async withInput(call: Call, exchange: McpExchange, fields: Fields): Promise<Fields> {
    const rules = rulesFor(call, exchange)
    const { inputRequests, requestState: own, taskId } = fields
    if (rules === undefined || (inputRequests === undefined && own === undefined)) return fields
    const { message } = exchange
    const asked = await askedIn(call, rules, inputRequests)
    const shown = inputRequests === undefined ? fields : { ...fields, inputRequests: asked }
    if (typeof taskId === 'string') {
      for (const [key, request] of Object.entries(asked))
        await this.#keepAsked(call, exchange, [taskId, key], request)
      return shown
    }
    if (message?.type !== 'request') return shown
    const states = await this.#states<RequestState>(PURPOSE)
    const kept = Object.entries(asked).map(([key, request]) => [key, withoutText(request)] as const)
    // It was parsed from JSON.
    const state = { own: own as RequestState['own'], asked: Object.fromEntries(kept) }
    return { ...shown, requestState: states.seal(call, message, state) }
  }

  /**
   * An error with the URLs that the user is to open before the call is repeated (2025-11-25, -32042), as the client gets it.
   * A refused URL denies the call.
   */
  async withUrls(call: Call, exchange: McpExchange, error: Fields): Promise<Fields> {
    const rules = rulesFor(call, exchange)
    const urls = urlsIn(error)
    if (rules === undefined || urls === undefined) return error
    const asked = await askedIn(call, rules, urls)
    const elicitations = Object.values(asked).map(({ params }) => params)
    return { ...error, data: { ...(error['data'] as Fields), elicitations } }
  }

  /** Judges what a response asks of a caller of the invoke protocol; what is refused denies the call. */
  async judgeAsked(call: Call, { result, error }: Fields): Promise<void> {
    const rules = call.get(serverRequestRules)
    if (rules === undefined) return
    if (isJsonObject(result)) await askedIn(call, rules, result['inputRequests'])
    if (isJsonObject(error)) await askedIn(call, rules, urlsIn(error))
  }

  /**
   * Judges the client's responses in a message, and puts the server's own state in place of the sealed one. Throws or
   * rejects with `McpRefusal` for a state that is not valid.
   */
  judgeReplies(call: Call, exchange: McpExchange): MaybePromise<void> {
    const rules = rulesFor(call, exchange)
    const { message } = exchange
    if (rules === undefined || message === undefined || message.type === 'notification') return
    if (message.type === 'response' && isForGateway(message)) return
    if (message.type === 'response') return this.#judgeResponse(call, exchange, rules, message)
    const { inputResponses, requestState, cursor } = message.params
    if (cursor !== undefined && pagedMethods.has(message.method))
      return this.#openCursor(call, exchange, message)
    if (inputResponses === undefined && requestState === undefined) return
    return message.method === UPDATE
      ? this.#judgeUpdate(call, exchange, rules, message)
      : this.#judgeRound(call, exchange, rules, message)
  }

  /** A page of the list `method` with a cursor that only its caller can send back. */
  async withCursor(call: Call, exchange: McpExchange, method: string | null, page: Fields): Promise<Fields> {
    const { nextCursor: own } = page
    if (rulesFor(call, exchange) === undefined || typeof own !== 'string' || !isPaged(method)) return page
    return {
      ...page,
      nextCursor: (await this.#states<CursorState>(CURSOR_PURPOSE)).seal(
        call,
        { method, params: {} },
        { own },
      ),
    }
  }

  async #openCursor(call: Call, exchange: McpExchange, message: RpcRequest): Promise<void> {
    const { method, params } = message
    const state = (await this.#states<CursorState>(CURSOR_PURPOSE)).open(
      call,
      { method, params: {} },
      params['cursor'],
    )
    if (state === undefined) {
      const refusal = invalidParams('cursor: not one of this list.')
      keepProtocolError(exchange, refusal)
      throw refusal
    }
    const opened = { ...params, cursor: state.own }
    exchange.message = { ...message, params: opened, whole: { ...message.whole, params: opened } }
    delete exchange.text
  }

  async #judgeResponse(call: Call, exchange: McpExchange, rules: ServerRequestRules, message: RpcResponse) {
    await rules.judgeReply(call, await this.#takeAsked(call, exchange, message.id), message.whole)
  }

  async #judgeUpdate(call: Call, exchange: McpExchange, rules: ServerRequestRules, { params }: RpcRequest) {
    for (const [key, result] of responsesIn(params)) {
      const asked = await this.#takeAsked(call, exchange, [params['taskId'] ?? null, key])
      await rules.judgeReply(call, asked, { result })
    }
  }

  async #judgeRound(call: Call, exchange: McpExchange, rules: ServerRequestRules, message: RpcRequest) {
    const { requestState, ...others } = message.params
    const state = (await this.#states<RequestState>(PURPOSE)).open(call, message, requestState)
    if (state === undefined) {
      const refusal = invalidParams('requestState: not one of this request.')
      keepProtocolError(exchange, refusal)
      throw refusal
    }
    for (const [key, result] of responsesIn(others)) {
      const asked = Object.hasOwn(state.asked, key) ? state.asked[key] : undefined
      await rules.judgeReply(call, asked, { result })
    }
    const params = state.own === undefined ? others : { ...others, requestState: state.own }
    exchange.message = { ...message, params, whole: { ...message.whole, params } }
    delete exchange.text
  }

  async #states<State extends object>(purpose: string): Promise<RequestStates<State>> {
    return (await this.#sessions()).states(purpose)
  }

  /** Responds to the server in the session of the exchange: without it the server would wait, and so would the call. */
  async refuse(
    call: Call,
    exchange: McpExchange,
    id: RequestId,
    message = 'The gateway refuses the request.',
  ): Promise<undefined> {
    // The call may have ended by the refusal.
    const sending = { signal: AbortSignal.timeout(this.#own.timeoutMs), onBehalfOf: call }
    // A call that was denied got no credential.
    const own = call.get(credential) ?? (await exchange.credential?.())
    const send = createSend(this.#own, exchange.upstream(), own, sending)
    const headers: Record<string, string> = {}
    const given = {
      [SESSION_ID_HEADER]: serverSessionId(exchange),
      [PROTOCOL_VERSION_HEADER]: exchange.headers[PROTOCOL_VERSION_HEADER],
    }
    for (const [name, value] of Object.entries(given)) if (typeof value === 'string') headers[name] = value
    const error = { code: rpcCodes.refused, message }
    await createRespond(send, headers)({ jsonrpc: '2.0', id, error })
  }

  async #keepAsked(call: Call, exchange: McpExchange, name: JsonValue, request: AskedRequest): Promise<void> {
    await this.#asked.set(groupOf(call, exchange), [
      [JSON.stringify(name), stringifyJson(withoutText(request))],
    ])
  }

  async #takeAsked(call: Call, exchange: McpExchange, given: JsonValue): Promise<AskedRequest | undefined> {
    const group = groupOf(call, exchange)
    const name = JSON.stringify(given)
    const [kept] = await this.#asked.get(group, [name])
    if (kept === undefined) return undefined
    await this.#asked.delete(group, name)
    return parseExactObject(kept) as AskedRequest | undefined
  }
}

const pagedMethods: ReadonlySet<string> = new Set([
  ...Object.values(listForms).map(({ method }) => method),
  'tasks/list',
])

function isPaged(method: string | null): method is string {
  return method !== null && pagedMethods.has(method)
}

/** None for a server in this process: its program has the policy, and sends requests by a transport of its own. */
function rulesFor(call: Call, { connection }: McpExchange): ServerRequestRules | undefined {
  return connection === undefined ? call.get(serverRequestRules) : undefined
}

/** The caller's session at the server; responses come on other connections than requests. */
function groupOf(call: Call, { headers }: McpExchange): string {
  return JSON.stringify([callerKey(call), call.target.server, headers[SESSION_ID_HEADER] ?? null])
}

function responsesIn({ inputResponses }: JsonObject): [string, JsonValue][] {
  return isJsonObject(inputResponses) ? Object.entries(inputResponses) : []
}

function requestIn({ method, params }: Fields): AskedRequest {
  return { method: String(method), params: (isJsonObject(params) ? params : {}) as JsonObject }
}

/** The requests as the client gets them; each that is refused denies the call. Throws `ProtocolViolation`. */
async function askedIn(
  call: Call,
  rules: ServerRequestRules,
  inputRequests: unknown = {},
): Promise<Record<string, AskedRequest>> {
  const given = isJsonObject(inputRequests) ? Object.entries(inputRequests) : undefined
  if (given === undefined || given.length > maxRequests)
    throw new ProtocolViolation(`inputRequests: expected an object with at most ${maxRequests} requests.`)
  const asked: [string, AskedRequest][] = []
  for (const [key, request] of given) {
    const judged = await rules.judge(call, requestIn(isJsonObject(request) ? request : {}))
    if (isRefusedAsk(judged)) call.addFinding(judged.finding)
    else asked.push([key, judged])
  }
  return Object.fromEntries(asked)
}

/** The URLs of an error as requests. Throws `ProtocolViolation`. */
function urlsIn({ data }: Fields): Fields | undefined {
  const elicitations = isJsonObject(data) ? data['elicitations'] : undefined
  if (elicitations === undefined) return undefined
  if (!Array.isArray(elicitations)) throw new ProtocolViolation('elicitations: expected an array.')
  const requests = elicitations.map((params: unknown) => ({ method: 'elicitation/create', params }))
  return Object.fromEntries(requests.entries())
}

/** The members that the judgement of the response needs, without the text that only the client shows. */
function withoutText({ method, params: { mode, requestedSchema } }: AskedRequest): AskedRequest {
  const params = {
    ...(mode === undefined ? {} : { mode }),
    ...(requestedSchema === undefined ? {} : { requestedSchema }),
  }
  return { method, params }
}
