// Reads the request of an exchange in the form that the stages judge.
import { type CallRequest, callRequest } from '@svc/core'
import { canonicalizeExact, type JsonValue } from '@svc/core/json'
import { formatReference } from '@svc/core/match'
import { type CallControl, refineTarget } from '@svc/core/pipeline'
import { idempotencyKeyOf, isIdempotencyKey, keyExpected } from '../http/call-headers.js'
import type { ParsedBody } from '../http/client-exchange.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import type { GatewayRounds } from './elicitation.js'
import { isStatelessExchange, type McpExchange } from './exchange.js'
import { checkContentType, checkRequestHead, dropLeftovers } from './headers.js'
import type { UiResources } from './learned-values.js'
import { idOf, invalidParams, McpRefusal, type Message, parseJsonBody, readMessage } from './message.js'
import { continueTrace, metaOf } from './meta.js'
import { META_EMERGENCY, META_ESCALATION_ID, META_IDEMPOTENCY_KEY } from './protocol.js'
import { badName } from './references.js'
import type { RunningCalls } from './running-calls.js'
import { type ServerVersions, UNVERSIONED } from './server-versions.js'
import { type MessageSubject, messageSubject } from './subject.js'
import { splitTaskIds, TASKS_PREFIX } from './tasks.js'

const maxText = 1024

export interface RequestRules {
  readonly versions: ServerVersions
  /** Params of guarded methods that the policy passes, beside those of the protocol. */
  readonly passParams: readonly string[]
  /** The interfaces of tools, which callers that may use the tools may read. */
  readonly interfaces: UiResources
  readonly rounds: Pick<GatewayRounds, 'opened'>
  /** Opens the id of the client's session. Rejects if the key cannot be read. */
  openSession(exchange: McpExchange): Promise<void>
  /** Knows the message from when it is read. */
  readonly running: Pick<RunningCalls, 'begin'>
}

export type RequestBody = Uint8Array | ParsedBody

/** The JSON value of a body. Throws `McpRefusal`. */
export function jsonOf(body: RequestBody, { headers, isHeaderless }: McpExchange): JsonValue {
  if (isHeaderless !== true) checkContentType(headers)
  return body instanceof Uint8Array ? parseJsonBody(body) : body.value
}

/** Completes the exchange and the call's target as far as the request is valid. Rejects with `Refusal`. */
export async function readRequest(
  call: CallControl,
  exchange: McpExchange,
  body: RequestBody | null,
  rules: RequestRules,
): Promise<CallRequest> {
  try {
    if (body !== null && exchange.method === 'POST') {
      const subject = await readBody(call, exchange, body, rules)
      const bytes = body instanceof Uint8Array ? body.byteLength : body.bytes
      return await requestOf(subject, call, exchange, { ...rules, bytes })
    }
    dropLeftovers(exchange)
    // A GET opens a stream, a DELETE ends a session: neither carries a message.
    const subject = { kind: 'protocol', method: null, name: exchange.method, args: {} } as const
    return await requestOf(subject, call, exchange, { ...rules, bytes: 0 })
  } catch (error) {
    keepProtocolError(exchange, error)
    throw error
  }
}

/** Keeps the error and the id for the response to a request that breaks the protocol. */
export function keepProtocolError(exchange: McpExchange, error: unknown): void {
  if (!(error instanceof McpRefusal)) return
  exchange.protocolError = error.protocolError
  exchange.id ??= error.id
}

async function requestOf(
  subject: MessageSubject,
  call: CallControl,
  exchange: McpExchange,
  { versions, interfaces, running, openSession, bytes }: RequestRules & { readonly bytes: number },
): Promise<CallRequest> {
  // Only what is left of the headers has a meaning for the message.
  if (exchange.headers[SESSION_ID_HEADER] !== undefined) await openSession(exchange)
  const { server, message } = exchange
  const { kind, method, name, args, params } = subject
  call[refineTarget]({ tool: name, mcpMethod: method })
  const idempotencyKey = keyOf(exchange)
  // The id that a person was asked about comes before the one in `_meta`.
  const escalationId =
    exchange.elicited?.escalationId ?? textInMeta(exchange, META_ESCALATION_ID, 'x-escalation-id')
  const emergency = textInMeta(exchange, META_EMERGENCY, 'x-escalation-emergency')
  const upstream = exchange.upstream()
  const round = roundOf(message)
  await running.begin(call, exchange)
  if (kind === 'resource') await interfaces.refresh(upstream, name)
  const version =
    kind === 'protocol'
      ? (versions.known(upstream) ?? UNVERSIONED)
      : await versions.of(upstream, exchange.credential)
  call[refineTarget]({ serverVersion: version, toolVersion: version })
  const shownBy = kind === 'resource' ? interfaces.shownBy({ server, upstream, version }, name) : undefined
  const init = {
    kind,
    method,
    server,
    name,
    version,
    args,
    params,
    bytes,
    idempotencyKey,
    escalationId,
    emergency,
    rpcId: message?.type === 'request' ? exchange.id : undefined,
    round,
    shownBy,
    ofTasks: exchange.tasks.length === 0 ? undefined : toolsOfTasks(exchange, method, version),
  }
  try {
    return callRequest(init)
  } catch (cause) {
    throw badName(cause)
  }
}

/** The references of the tools of the tasks that a request is about. */
function toolsOfTasks(
  { server, tasks }: McpExchange,
  method: string | null,
  version: string,
): readonly string[] | undefined {
  if (method?.startsWith(TASKS_PREFIX) !== true) return undefined
  // An id that is not the gateway's has no tool, and is refused.
  const tools = tasks.flatMap(({ tool }) => (tool === '' ? [] : tool))
  return tools.length === 0 ? undefined : tools.map((tool) => formatReference({ server, tool, version }))
}

async function readBody(
  call: CallControl,
  exchange: McpExchange,
  body: RequestBody,
  { passParams, rounds }: RequestRules,
): Promise<MessageSubject> {
  const value = jsonOf(body, exchange)
  exchange.id = exchange.clientId ?? idOf(value)
  const message = readMessage(value)
  const mayNameTasks = message.type === 'response' || 'taskId' in message.params || '_meta' in message.params
  const split = mayNameTasks ? splitTaskIds(message) : { message, tasks: [] }
  exchange.message = split.message
  if (split.message.whole === value && 'text' in body) exchange.text = body.text
  exchange.tasks = split.tasks
  // This comes before the checks, so that the record of a refused message has its method.
  if (message.type !== 'response') call[refineTarget]({ mcpMethod: message.method })
  continueTrace(call, message)
  checkRequestHead(exchange, message)
  const { message: own } = split
  const isRound = own.type === 'request' && own.params['requestState'] !== undefined
  const opened = isRound ? await rounds.opened(call, own, exchange.elicited) : undefined
  if (opened !== undefined) {
    exchange.message = opened.message
    exchange.elicited = opened.elicited
    delete exchange.text
  }
  return messageSubject(opened?.message ?? own, {
    passParams,
    isStateless: isStatelessExchange(exchange),
  })
}

/** The keys in the header and in `_meta` must be the same. */
function keyOf(exchange: McpExchange): string | null {
  const inHeader = idempotencyKeyOf(exchange.headers)
  const inBody = inMeta(exchange.message, META_IDEMPOTENCY_KEY)
  if (inBody === undefined) return inHeader
  if (!isIdempotencyKey(inBody)) throw invalidParams(`_meta["${META_IDEMPOTENCY_KEY}"]: ${keyExpected}`)
  if (inHeader !== null && inHeader !== inBody) {
    throw invalidParams(`idempotency-key and _meta["${META_IDEMPOTENCY_KEY}"] are both given and differ.`)
  }
  return inBody
}

/** The text in `_meta`; the enforcement stage reads the header. */
function textInMeta({ headers, message }: McpExchange, name: string, header: string): string | undefined {
  const inBody = inMeta(message, name)
  if (inBody === undefined) return undefined
  if (typeof inBody !== 'string' || inBody === '' || inBody.length > maxText) {
    throw invalidParams(`_meta["${name}"]: expected 1 to ${maxText} characters.`)
  }
  const inHeader = headers[header]
  if (inHeader !== undefined && inHeader !== inBody) {
    throw invalidParams(`${header} and _meta["${name}"] are both given and differ.`)
  }
  return inBody
}

/** The members that a client adds when it repeats a request that asked for input (2026-07-28). */
function roundOf(message: Message | undefined): string | undefined {
  if (message?.type !== 'request') return undefined
  const { inputResponses, requestState } = message.params
  if (inputResponses === undefined && requestState === undefined) return undefined
  return canonicalizeExact({ inputResponses: inputResponses ?? null, requestState: requestState ?? null })
    .text
}

function inMeta(message: Message | undefined, name: string): JsonValue | undefined {
  if (message === undefined || message.type === 'response') return undefined
  return metaOf(message.params)[name]
}
