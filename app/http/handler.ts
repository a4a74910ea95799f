// From a request to a call, through the pipeline in force, to an answer.
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  Call,
  type CallRequest,
  type CallTarget,
  type Clock,
  type Denied,
  denied,
  type ErrorCode,
  type Face,
  type Failed,
  type Ids,
  isRefusal,
  type Logger,
  type Outcome,
  Refusal,
  reachedAt,
  redactedFault,
  redactor,
} from '@svc/core'
import type { Generation } from '../gateway/generation.js'
import type { TenantCalls } from '../gateway/tenant-calls.js'
import { leavingCancels, mcpExchange, openExchange } from '../mcp/exchange.js'
import type { McpFace } from '../mcp/face.js'
import { asToolOf, findVersion } from '../mcp/invoked-tool.js'
import { takeMark } from '../mcp/sessions.js'
import { refusalAnswer, type WholeAnswer, writeOutcome, writeRefusal, writeWhole } from './answer.js'
import { readBody, skipBody } from './body.js'
import { EscalationPolls } from './escalation-polls.js'
import { agentOf, repeatedHeader, traceOf } from './facts.js'
import { readA2a, readInvoke } from './invoke.js'
import { onLeave } from './leaving.js'
import { resourceMetadata } from './resource-metadata.js'
import { type Route, routeOf } from './route.js'

export interface HandlerParts {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  readonly maxBodyBytes: number
  readonly mcp: McpFace
  readonly tenantCalls: TenantCalls
  /** The policy in force at this moment. */
  generation(): Generation
  draining(): boolean
  /** What of the server itself needs an operator. */
  warnings(): string[]
}

type CallRoute = Exclude<Route, { kind: 'health' | 'ready' | 'metadata' | 'escalation' | 'none' }>

/** How one route becomes a call: what is known before the body is read, and how to read it. */
interface Entry {
  readonly face: Face
  readonly target: CallTarget
  read(call: Call): Promise<CallRequest>
  encode(outcome: Denied | Failed, call: Call): WholeAnswer
  /** Fills slots of the face's own. */
  prepare?(call: Call): void
  /** Whether a caller who leaves before the answer begins means the call to stop. */
  leavingCancels?(): boolean
}

export class GatewayHandler {
  #parts: HandlerParts
  #polls: EscalationPolls

  constructor(parts: HandlerParts) {
    this.#parts = parts
    this.#polls = new EscalationPolls(parts)
  }

  async handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    // A connection must not hold the drain.
    if (this.#parts.draining()) response.setHeader('connection', 'close')
    if (this.#parts.generation().origins.answerBrowser(message, response)) return
    const route = routeOf(message.method ?? '', message.url ?? '/')
    if (route.kind === 'health') return writeWhole(response, json(200, { status: 'ok' }))
    if (route.kind === 'ready') return this.#ready(response)
    if (route.kind === 'metadata') return this.#metadata(message, response, route.path)
    if (route.kind === 'escalation') {
      return writeWhole(response, await this.#polls.answer(message.headers, route.id))
    }
    if (route.kind === 'none') {
      return writeRefusal(response, denied('TARGET_NOT_FOUND', 'No such path.'), this.#parts.ids.traceId())
    }
    const generation = this.#parts.generation()
    const entry = this.#entry(message, route, generation)
    const call = this.#call(message, entry, generation)
    call.set(reachedAt, () => generation.publicUrl.of(message))
    const leave = (): void => {
      call.leave()
      if (entry.leavingCancels?.()) call.abort('UPSTREAM_UNREACHABLE', 'The caller left before the answer.')
    }
    const stay = onLeave(response, leave)
    try {
      await generation.serve(call, async (outcome) => {
        stay()
        this.#tellFault(call, outcome)
        if (!message.complete) await skipBody(message)
        // Nor must a body that nobody will read hold the connection.
        if (!message.complete || this.#parts.draining()) response.setHeader('connection', 'close')
        return writeOutcome(response, call, outcome, (refused) => entry.encode(refused, call))
      })
    } finally {
      this.#parts.tenantCalls.leave(call)
    }
  }

  /** The record holds every call; the log holds what an operator must mend. */
  #tellFault(call: Call, outcome: Outcome): void {
    if (outcome.kind !== 'failed') return
    const redacts = call.get(redactor)
    const err = redacts === undefined ? outcome.cause : redactedFault(outcome.cause, redacts)
    const fields = { err, code: outcome.code, trace_id: call.trace.traceId }
    if (notOurs.has(outcome.code)) this.#parts.logger.debug(fields, 'call ended without an answer')
    else this.#parts.logger.error(fields, 'call failed')
  }

  #call(message: IncomingMessage, entry: Entry, { origins }: Generation): Call {
    const { headers } = message
    const { agent, refusal = repeatedHeader(message) } = agentOf(headers)
    const call: Call = new Call({
      face: entry.face,
      headers,
      agent,
      trace: traceOf(headers, this.#parts.ids),
      target: entry.target,
      receivedAt: this.#parts.clock.now(),
      read: async () => {
        if (this.#parts.draining()) throw new Refusal('DRAINING', 'The gateway is shutting down.')
        if (refusal !== undefined) throw refusal
        origins.check(headers)
        this.#parts.tenantCalls.enter(call)
        return entry.read(call)
      },
    })
    entry.prepare?.(call)
    return call
  }

  #entry(message: IncomingMessage, route: CallRoute, generation: Generation): Entry {
    const { maxBodyBytes } = this.#parts
    const encode = (outcome: Denied | Failed, call: Call): WholeAnswer =>
      refusalAnswer(outcome, call.trace.traceId)
    switch (route.kind) {
      case 'invoke': {
        return {
          face: 'invoke',
          target: targetOf(route.server, route.tool, route.version),
          read: async (call) => {
            generation.target(route.server)
            return this.#served(call, await readInvoke(message, maxBodyBytes, route), generation)
          },
          encode,
        }
      }
      case 'a2a': {
        const target = targetOf('unknown', 'unknown', 'unversioned')
        return {
          face: 'a2a',
          target,
          read: async (call) => {
            const request = await readA2a(message, maxBodyBytes, target)
            generation.target(request.server)
            return this.#served(call, request, generation)
          },
          encode,
        }
      }
      case 'mcp': {
        const { server, method } = route
        const target = targetOf(server, method, 'unversioned')
        const upstream = (): URL => generation.target(server)
        const credential = () => generation.pipeline.ownCredential(server)
        const { headers } = message
        // In place, so that all who read the call's headers see one session.
        const sessionMark = takeMark(headers)
        const head = { method, server, target, upstream, credential, headers, sessionMark }
        const exchange = openExchange(head)
        return {
          face: 'mcp',
          target,
          read: async () =>
            this.#parts.mcp.read(exchange, method === 'POST' ? await readBody(message, maxBodyBytes) : null),
          encode: (outcome, call) => this.#parts.mcp.encodeRefusal(exchange, outcome, call.trace.traceId),
          prepare: (call) => call.set(mcpExchange, exchange),
          leavingCancels: () => leavingCancels(exchange),
        }
      }
      default:
        return {
          face: 'invoke',
          target: targetOf('unknown', 'unknown', 'unversioned'),
          read: () => Promise.reject(route.refusal),
          encode,
        }
    }
  }

  #metadata(message: IncomingMessage, response: ServerResponse, path: string): void {
    try {
      writeWhole(response, resourceMetadata(message, path, this.#parts.generation()))
    } catch (fault) {
      if (!isRefusal(fault)) throw fault
      writeRefusal(response, denied(fault.code, fault.message), this.#parts.ids.traceId())
    }
  }

  /** The request as its target knows it: an MCP server's tools have the version that the server gives itself. */
  async #served(call: Call, request: CallRequest, generation: Generation): Promise<CallRequest> {
    const { server } = request
    if (!generation.isMcp(server)) return request
    const credential = () => generation.pipeline.ownCredential(server)
    const version = await this.#parts.mcp.versionOf(generation.target(server), credential)
    call.target.serverVersion = version
    call.target.toolVersion = version
    findVersion(call, request, version)
    return asToolOf(request, version)
  }

  #ready(response: ServerResponse): void {
    const { pipeline } = this.#parts.generation()
    const reasons = pipeline.unready()
    if (!this.#parts.draining() && reasons.length === 0) {
      const warnings = [...pipeline.warnings(), ...this.#parts.warnings()]
      writeWhole(response, json(200, { status: 'ready', ...(warnings.length === 0 ? {} : { warnings }) }))
      return
    }
    const code: ErrorCode = this.#parts.draining()
      ? 'DRAINING'
      : reasons.some((reason) => reason.startsWith('audit:'))
        ? 'AUDIT_UNAVAILABLE'
        : 'STORE_UNAVAILABLE'
    const message = reasons.length === 0 ? 'The gateway is shutting down.' : reasons.join('; ')
    writeRefusal(response, denied(code, message), this.#parts.ids.traceId())
  }
}

/** Failures in which nothing of the gateway's is broken. */
const notOurs: ReadonlySet<ErrorCode> = new Set([
  'UPSTREAM_UNREACHABLE',
  'DURATION_EXCEEDED',
  'PAYLOAD_TOO_LARGE',
])

function targetOf(server: string, tool: string, version: string): CallTarget {
  return { server, serverVersion: version, tool, toolVersion: version, mcpMethod: null }
}

function json(status: number, value: object): WholeAnswer {
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(value) }
}
