// The subject of a message, which stages judge: the tool, prompt or resource of a guarded method, or the open part of
// the protocol.
import type { RequestKind } from '@svc/core'
import type { JsonObject, JsonValue } from '@svc/core/json'
import { methodSkeleton } from './confusables.js'
import { invalidParams, invalidRequest, McpRefusal } from './mcp-refusal.js'
import { checkMembers, isObject, type Message } from './message.js'
import { rpcCodes } from './protocol.js'

export interface Subject {
  readonly kind: RequestKind
  /** The MCP method; null for a client's response. */
  readonly method: string | null
  readonly name: string
  /** The arguments that stages judge and the record hashes. */
  readonly args: JsonValue
}

type Guarded = (params: JsonObject) => Omit<Subject, 'method'>

/** The methods that need an allowed reference. Names are matched exactly. */
const guarded: Readonly<Record<string, Guarded>> = {
  'tools/call': (params) => ({ kind: 'tool', name: named(params, 'name'), args: argumentsOf(params) }),
  'prompts/get': (params) => ({ kind: 'prompt', name: named(params, 'name'), args: argumentsOf(params) }),
  'resources/read': resource,
  'resources/subscribe': resource,
  'resources/unsubscribe': resource,
  'completion/complete': completion,
}

/** Opens a stream of notifications; the resources it names are guarded like subscriptions to them. */
export const LISTEN_METHOD = 'subscriptions/listen'

const guardedSkeletons = new Set([...Object.keys(guarded), LISTEN_METHOD].map(methodSkeleton))

/** The same limit as in references; the record contains refused names. */
const maxName = 4096

/** Throws `McpRefusal` when a guarded method is asked for in a way that servers could read differently. */
export function subjectOf(message: Message): Subject {
  if (message.type === 'response')
    return { kind: 'protocol', method: null, name: 'response', args: responseArguments(message.whole) }
  const { method, params } = message
  const read = Object.hasOwn(guarded, method) ? guarded[method] : undefined
  if (read === undefined) {
    if (method !== LISTEN_METHOD && guardedSkeletons.has(methodSkeleton(method))) {
      throw new McpRefusal(rpcCodes.methodNotFound, 'No such method; method names are matched exactly.')
    }
    if (method === LISTEN_METHOD) resourceSubscriptions(params)
    return { kind: 'protocol', method, name: method, args: params }
  }
  // A server may run a notification like a request, only without an answer.
  if (message.type === 'notification') throw invalidRequest(`id: ${method} is a request.`)
  return { method, ...read(params) }
}

/** The resources a `subscriptions/listen` names. Throws `McpRefusal`. */
export function resourceSubscriptions(params: JsonObject): string[] {
  const filter = params['notifications']
  if (filter === undefined) return []
  if (!isObject(filter)) throw invalidParams('notifications: expected an object.')
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

function resource(params: JsonObject): Omit<Subject, 'method'> {
  const uri = named(params, 'uri')
  return { kind: 'resource', name: uri, args: { uri } }
}

/** A completion has the reference of its prompt or resource. */
function completion(params: JsonObject): Omit<Subject, 'method'> {
  const { _meta, ref, ...args } = params
  if (!isObject(ref)) throw invalidParams('ref: expected an object.')
  checkMembers(ref)
  switch (ref['type']) {
    case 'ref/prompt':
      return { kind: 'prompt', name: named(ref, 'name'), args }
    case 'ref/resource':
      return { kind: 'resource', name: named(ref, 'uri'), args }
    default:
      throw invalidParams('ref.type: expected "ref/prompt" or "ref/resource".')
  }
}

function named(params: JsonObject, member: 'name' | 'uri'): string {
  const name = params[member]
  if (typeof name !== 'string' || name === '' || name.length > maxName) {
    throw invalidParams(`${member}: expected a string of 1 to ${maxName} characters.`)
  }
  return name
}

function argumentsOf(params: JsonObject): JsonObject {
  const args = params['arguments'] ?? {}
  if (!isObject(args)) throw invalidParams('arguments: expected an object.')
  return args
}

function responseArguments(whole: JsonObject): JsonObject {
  const { result, error } = whole
  return result === undefined ? { error: error ?? null } : { result }
}
