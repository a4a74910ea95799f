// Checks that the caller may use the session, the tasks and the subscribed resources that its message names, and its
// responses to what servers ask.
import { type Call, type CallRequest, type Denied, denied, serverRequestRules } from '@svc/core'
import { lastEventIdOf, type McpExchange } from './exchange.js'
import { invalidParams } from './message.js'
import { checkedReference } from './references.js'
import { keepProtocolError } from './request.js'
import type { LearningCaches } from './response-filter.js'
import { type BoundTask, isOfCaller, serverSessionId } from './session-binding.js'
import { LISTEN_METHOD, resourceSubscriptions } from './subject.js'

export class AccessChecks {
  #caches: LearningCaches

  constructor(caches: LearningCaches) {
    this.#caches = caches
  }

  /** Undefined if the message may be sent. Rejects with `Refusal`, or if the session key cannot be read. */
  async refusalOf(call: Call, exchange: McpExchange, request: CallRequest): Promise<Denied | undefined> {
    const refused = this.ofSession(call, exchange)
    if (refused !== undefined) return refused
    for (const task of exchange.tasks) {
      const ofTask = await this.#task(call, exchange, task)
      if (ofTask !== undefined) return ofTask
    }
    if (request.method === LISTEN_METHOD) {
      const ofSubscription = await this.#subscription(call, exchange)
      if (ofSubscription !== undefined) return ofSubscription
    }
    if (call.get(serverRequestRules) !== undefined) await this.#caches.requests.judgeReplies(call, exchange)
    return undefined
  }

  /** Undefined if the session is one of the caller's, or if there is none. */
  ofSession(call: Call, exchange: McpExchange): Denied | undefined {
    const { session } = exchange
    if (session !== undefined && !isOfCaller(call, session)) {
      exchange.isForeignSession = true
      return denied('TARGET_NOT_FOUND', 'There is no such session of this caller; begin a new one.')
    }
    const isResumed = exchange.method === 'GET' && lastEventIdOf(exchange) !== undefined
    if (!isResumed || serverSessionId(exchange) !== undefined) return undefined
    // Nothing binds an event id to its caller: it could name the stream of another.
    return denied('BAD_REQUEST', 'Last-Event-ID resumes a stream of a session; send its Mcp-Session-Id.')
  }

  /** A message may name only tasks of its caller whose tools the caller may use. */
  async #task(call: Call, exchange: McpExchange, task: BoundTask): Promise<Denied | undefined> {
    const { sessions, versions, tasks } = this.#caches
    if (!(await sessions()).isBoundTask(call, task)) {
      const refusal = invalidParams('There is no such task of this caller.')
      keepProtocolError(exchange, refusal)
      throw refusal
    }
    const version = await versions.of(exchange.upstream(), exchange.credential)
    const reference = checkedReference(exchange.server, 'tool', task.tool, version)
    if (!call.mayRequest(reference, 'tool')) return notAllowed('The tool of the task may not be used.')
    await tasks.add(call, task)
    return undefined
  }

  /** A `subscriptions/listen` may name only resources that the caller may use. */
  async #subscription(
    call: Call,
    { server, message, upstream, credential }: McpExchange,
  ): Promise<Denied | undefined> {
    if (message === undefined || message.type === 'response') return undefined
    const uris = resourceSubscriptions(message.params)
    if (uris.length === 0) return undefined
    const version = await this.#caches.versions.of(upstream(), credential)
    const mayUse = (uri: string): boolean =>
      call.mayUse(checkedReference(server, 'resource', uri, version), 'resource')
    return uris.every(mayUse)
      ? undefined
      : notAllowed('The subscription names a resource that may not be used.')
  }
}

function notAllowed(message: string): Denied {
  return denied('TOOL_NOT_ALLOWED', message, {
    denial: { level: 'gateway', type: 'mcp', reason: 'tool_not_in_allowlist' },
  })
}
