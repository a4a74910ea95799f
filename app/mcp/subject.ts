// The subject of a message, which stages judge: the tool, prompt or resource of a guarded method, or an unguarded method.
import type { RequestKind } from '@svc/core'
import { isJsonNumber, isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { foldName } from '@svc/core/match'
import {
  checkConfusables,
  invalidParams,
  invalidRequest,
  McpRefusal,
  type MemberNames,
  type Message,
  memberNames,
} from './message.js'
import { META_EMERGENCY, META_ESCALATION_ID, META_IDEMPOTENCY_KEY, rpcCodes } from './protocol.js'
import { checkTasksDeclared } from './tasks.js'

export interface MessageSubject {
  readonly kind: RequestKind
  /** The MCP method; null for a client's response. */
  readonly method: string | null
  readonly name: string
  /** The arguments that stages judge and the record hashes. */
  readonly args: JsonValue
  /** The other params of a guarded method that stages judge and the record hashes. */
  readonly params?: JsonObject
}

interface GuardedMethod extends ParamNames {
  read(params: JsonObject): Omit<MessageSubject, 'method'>
}

const notAlphanumeric = /[^\p{L}\p{N}]+/gu

/** Params that a client adds when it repeats a request that asked for input (2026-07-28). */
const round = ['inputResponses', 'requestState']
const called = ['name', 'arguments']

/** The methods that need an allowed reference. Names are matched exactly. */
const guarded: Readonly<Record<string, GuardedMethod>> = {
  'tools/call': { own: called, others: [...round, 'task'], read: (params) => callOf('tool', params) },
  'prompts/get': { own: called, others: round, read: (params) => callOf('prompt', params) },
  'resources/read': { own: ['uri'], others: round, read: resource },
  'resources/subscribe': { own: ['uri'], others: [], read: resource },
  'resources/unsubscribe': { own: ['uri'], others: [], read: resource },
  'completion/complete': { own: ['ref', 'argument', 'context'], others: [], read: completion },
}

/** Opens a stream of notifications; the resources that it names are guarded as in subscriptions. */
export const LISTEN_METHOD = 'subscriptions/listen'

/** Methods that name a task, which must be the caller's. */
const taskMethods = ['tasks/get', 'tasks/result', 'tasks/update', 'tasks/cancel', 'tasks/list']

/** The members of params that a method reads. Of methods that are not listed, only `_meta` is known. */
const membersRead: ReadonlyMap<string, MemberNames> = new Map([
  ...Object.entries(guarded).map(([method, { own, others }]) => readBy(method, [...own, ...others])),
  readBy(LISTEN_METHOD, ['notifications']),
  ...taskMethods.map((method) => readBy(method, ['taskId'])),
])
const metaRead = memberNames('_meta')
const referenceRead = memberNames('type', 'name', 'uri')

function readBy(method: string, names: readonly string[]): [string, MemberNames] {
  return [method, memberNames('_meta', ...names)]
}

/** Methods that 2026-07-28 has not, of those that name a resource or a task, with what replaces them. */
const successors: ReadonlyMap<string, string> = new Map([
  ['resources/subscribe', LISTEN_METHOD],
  ['resources/unsubscribe', LISTEN_METHOD],
  ['tasks/result', 'tasks/get'],
  ['tasks/list', 'tasks/get'],
])

const guardedSkeletons = new Set([...Object.keys(guarded), LISTEN_METHOD, ...taskMethods].map(methodSkeleton))

/** The same limit as in references, because records contain refused names. */
const maxName = 4096

export interface SubjectRules {
  /** Params of guarded methods that the policy passes, beside those of the protocol. */
  readonly passParams: readonly string[]
  /** Whether the request is of a revision without sessions. */
  readonly isStateless: boolean
}

/** Throws `McpRefusal` for a message that servers could read differently as a guarded method. */
export function messageSubject(message: Message, { passParams, isStateless }: SubjectRules): MessageSubject {
  if (message.type === 'response')
    return { kind: 'protocol', method: null, name: 'response', args: responseArguments(message.whole) }
  const { method, params } = message
  const successor = isStateless ? successors.get(method) : undefined
  if (successor !== undefined) {
    throw new McpRefusal(
      rpcCodes.methodNotFound,
      `No such method in this revision; ${successor} replaces it.`,
    )
  }
  if (isStateless) checkTasksDeclared(method, params)
  checkConfusables(params, membersRead.get(method) ?? metaRead)
  const known = Object.hasOwn(guarded, method) ? guarded[method] : undefined
  if (known === undefined) {
    if (
      method !== LISTEN_METHOD &&
      !taskMethods.includes(method) &&
      guardedSkeletons.has(methodSkeleton(method))
    ) {
      throw new McpRefusal(rpcCodes.methodNotFound, 'No such method; method names are matched exactly.')
    }
    if (method === LISTEN_METHOD) resourceSubscriptions(params)
    return { kind: 'protocol', method, name: method, args: params }
  }
  // A server may run a notification as a request without a response.
  if (message.type === 'notification') throw invalidRequest(`id: ${method} is a request.`)
  const { kind, name, args, params: ofReference } = known.read(params)
  const others = inspectedParams(params, known, passParams)
  const judged = ofReference === undefined ? others : { ...others, ...ofReference }
  return judged === undefined ? { kind, method, name, args } : { kind, method, name, args, params: judged }
}

/** The resources that a `subscriptions/listen` names. Throws `McpRefusal`. */
export function resourceSubscriptions(params: JsonObject): string[] {
  const filter = params['notifications']
  if (filter === undefined) return []
  if (!isJsonObject(filter)) throw invalidParams('notifications: expected an object.')
  const [confusable] = Object.keys(filter).filter(
    (name) => name !== SUBSCRIPTIONS && methodSkeleton(name) === methodSkeleton(SUBSCRIPTIONS),
  )
  const uris = filter[SUBSCRIPTIONS] ?? []
  if (confusable !== undefined || !Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) {
    throw invalidParams('notifications.resourceSubscriptions: expected an array of URIs.')
  }
  return uris
}

const SUBSCRIPTIONS = 'resourceSubscriptions'

function callOf(kind: 'tool' | 'prompt', params: JsonObject): Omit<MessageSubject, 'method'> {
  return { kind, name: requiredName(params, 'name'), args: argumentsOf(params) }
}

function resource(params: JsonObject): Omit<MessageSubject, 'method'> {
  const uri = requiredName(params, 'uri')
  return { kind: 'resource', name: uri, args: { uri } }
}

/** A completion is judged by the reference of its prompt or resource. */
function completion(params: JsonObject): Omit<MessageSubject, 'method'> {
  const { ref, argument, context } = params
  if (!isJsonObject(ref)) throw invalidParams('ref: expected an object.')
  checkConfusables(ref, referenceRead)
  const args = {
    ...(argument === undefined ? {} : { argument }),
    ...(context === undefined ? {} : { context }),
  }
  switch (ref['type']) {
    case 'ref/prompt':
      return { kind: 'prompt', name: requiredName(ref, 'name'), args, ...restOf(ref, 'name') }
    case 'ref/resource':
      return { kind: 'resource', name: requiredName(ref, 'uri'), args, ...restOf(ref, 'uri') }
    default:
      throw invalidParams('ref.type: expected "ref/prompt" or "ref/resource".')
  }
}

/** The members of a `ref` beside its type and name. */
function restOf(ref: JsonObject, name: 'name' | 'uri'): Pick<MessageSubject, 'params'> {
  const rest = Object.entries(ref).filter(([member]) => member !== 'type' && member !== name)
  return rest.length === 0 ? {} : { params: { ref: Object.fromEntries(rest) } }
}

function requiredName(params: JsonObject, member: 'name' | 'uri'): string {
  const name = params[member]
  if (typeof name !== 'string' || name === '' || name.length > maxName) {
    throw invalidParams(`${member}: expected a string of 1 to ${maxName} characters.`)
  }
  return name
}

function argumentsOf(params: JsonObject): JsonObject {
  const { arguments: args = {} } = params
  if (!isJsonObject(args)) throw invalidParams('arguments: expected an object.')
  return args
}

function responseArguments(whole: JsonObject): JsonObject {
  const { result, error } = whole
  return result === undefined ? { error: error ?? null } : { result }
}

/**
 * The fold of a name without spaces, punctuation and control characters: `Tools.Call ` becomes `toolscall`. Methods that a
 * lenient decoder could confuse have the same skeleton.
 */
export function methodSkeleton(method: string): string {
  return foldName(method).replace(notAlphanumeric, '')
}

// Inspects the params of a guarded method beside its arguments: each is judged, hashed and fingerprinted, or refused.

/** The params that a method knows. */
export interface ParamNames {
  /** Params that name the call or are its arguments. */
  readonly own: readonly string[]
  /** The method's other params. */
  readonly others: readonly string[]
}

/** Length of the text that `_meta` may carry without being judged. */
const maxUnjudged = 8192

/** Members of `_meta` that differ between repeats of one call and say nothing of what it does. */
const unjudgedMeta: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  progressToken: (value) => isJsonNumber(value) || isShortText(value),
  traceparent: isShortText,
  tracestate: isShortText,
  baggage: isShortText,
  [META_IDEMPOTENCY_KEY]: isShortText,
  [META_ESCALATION_ID]: isShortText,
  [META_EMERGENCY]: isShortText,
}

/**
 * The `params` that go upstream beside the method's own; undefined if there are none. Throws `McpRefusal` for params that
 * neither the method nor `passParams` names.
 */
export function inspectedParams(
  params: JsonObject,
  names: ParamNames,
  passParams: readonly string[],
): JsonObject | undefined {
  const judged: [string, JsonValue][] = []
  for (const [name, value] of Object.entries(params)) {
    if (names.own.includes(name)) continue
    if (name === '_meta') {
      const meta = judgedMeta(value)
      if (meta !== undefined) judged.push([name, meta])
      continue
    }
    if (!names.others.includes(name) && !passParams.includes(name)) {
      throw invalidParams(
        'params: a member that the method does not know; server.mcp.pass_params may name it.',
      )
    }
    judged.push([name, value])
  }
  return judged.length === 0 ? undefined : Object.fromEntries(judged)
}

function judgedMeta(meta: JsonValue): JsonObject | undefined {
  if (!isJsonObject(meta)) throw invalidParams('_meta: expected an object.')
  const judged = Object.entries(meta).filter(([name, value]) => {
    const isUnjudged = Object.hasOwn(unjudgedMeta, name) ? unjudgedMeta[name] : undefined
    if (isUnjudged === undefined) return true
    if (!isUnjudged(value)) throw invalidParams(`_meta["${name}"]: expected text of its kind.`)
    return false
  })
  return judged.length === 0 ? undefined : Object.fromEntries(judged)
}

function isShortText(value: JsonValue): boolean {
  return typeof value === 'string' && value.length <= maxUnjudged
}
