// Judges what servers ask of clients, and the clients' responses. Each decision is a record of its own, as a request may come
// on a stream whose call is recorded already.
import {
  type AskedRequest,
  type Call,
  effectOnCall,
  type Finding,
  type GatewayEvent,
  identity,
  type Meter,
  principalKeyOf,
  type RecordEvent,
  type RefusedAsk,
  resolve,
  resolveOptional,
  type ServerRequestRules,
  serverRequestRules,
  services,
  tokens,
  verdict,
} from '@svc/core'
import { canonicalizeExact, isJsonObject, type JsonObject, sha256Hex } from '@svc/core/json'
import { compilePatternMap, foldName } from '@svc/core/match'
import { unknownServers } from '@svc/core/policy'
import { BoundedMap } from '@svc/core/store'
import { digested, SchemaThread } from '../schema/schema-thread.js'
import { userOf } from '../schema/stage.js'
import { defineProtection } from '../shared/protection.js'
import { parseUrlHost, urlProblem } from '../shared/url-hosts.js'
import { askedText, asksForSecret, imitatesGateway, maxText } from './asked-text.js'
import {
  type RequestAction,
  type ServerRequestsConfig,
  serverRequestsConfig,
  serverRequestsSchema,
} from './config.js'
import { type AskedKind, kindOf } from './kinds.js'

/** Requests of a server to one caller in a minute. */
const maxPerMinute = 60
const minuteMs = 60_000
const maxCounted = 10_000

const requestReasons = [
  'server_request_denied',
  'server_request_unknown',
  'server_request_flood',
  'credential_requested',
  'gateway_imitated',
  'url_not_allowed',
  'reply_invalid',
] as const
type RequestReason = (typeof requestReasons)[number]

interface Violation {
  readonly reason: RequestReason
  readonly detail: string
}

export interface ServerRequestJudgeOptions {
  readonly schemas: SchemaThread
  /** Addresses of the gateway itself, folded. */
  readonly ownHosts: readonly string[]
  readonly meter: Meter | undefined
  /** Monotonic milliseconds. */
  now(): number
  /** Undefined if the policy has no records. */
  record(): RecordEvent | undefined
}

class ServerRequestJudge implements ServerRequestRules {
  #config: ServerRequestsConfig
  #options: ServerRequestJudgeOptions
  #hosts: readonly NonNullable<ReturnType<typeof parseUrlHost>>[]
  #expect: ReturnType<typeof compilePatternMap<readonly 'credential'[]>>
  /** Requests of the current minute, by caller and server. */
  #counted = new BoundedMap<string, { readonly until: number; requests: number }>(maxCounted)

  constructor(config: ServerRequestsConfig, options: ServerRequestJudgeOptions) {
    this.#config = config
    this.#options = options
    this.#hosts = config.urlHosts.flatMap((host) => parseUrlHost(host) ?? [])
    this.#expect = compilePatternMap(config.expect)
  }

  async judge(call: Call, request: AskedRequest): Promise<AskedRequest | RefusedAsk> {
    const { meter } = this.#options
    const kind = kindOf(request)
    if (kind === 'passed') return request
    const flood = this.#countedIn(call)
    const action = kind === 'unknown' ? 'deny' : this.#actionOf(call, kind)
    const violation = flood ?? (await this.#violation(call, kind, action, request))
    meter?.count('svc_server_requests_total')
    if (violation === undefined) {
      if (action === 'record') await this.#record(call, kind, request, undefined)
      return kind.startsWith('elicitation') ? named(call, request) : request
    }
    const finding = this.#finding(violation, call, kind)
    const isRefused = effectOf(call, finding) === 'deny'
    if (isRefused) meter?.count('svc_server_requests_refused_total')
    // One record says that there are too many.
    if (flood === undefined || flood.isFirst) await this.#record(call, kind, request, finding)
    if (isRefused) return { finding: { ...finding, isLate: true } }
    return kind.startsWith('elicitation') ? named(call, request) : request
  }

  async judgeReply(call: Call, asked: AskedRequest | undefined, reply: JsonObject): Promise<void> {
    const problem =
      asked === undefined ? 'to a request that is not known' : await this.#replyProblem(call, asked, reply)
    if (problem === undefined) return
    this.#options.meter?.count('svc_server_requests_refused_total')
    call.addFinding(
      this.#finding({ reason: 'reply_invalid', detail: `a response ${problem}` }, call, 'reply'),
    )
  }

  #actionOf(call: Call, kind: AskedKind): RequestAction {
    const { servers = {}, actions } = this.#config
    const { server } = call.target
    return (Object.hasOwn(servers, server) ? servers[server]?.[kind] : undefined) ?? actions[kind]
  }

  /** Set past the number of requests that a server may send one caller. */
  #countedIn(call: Call): (Violation & { readonly isFirst: boolean }) | undefined {
    const caller = call.get(identity)
    const key = `${caller === undefined ? '' : principalKeyOf(caller)} ${call.target.server}`
    const now = this.#options.now()
    const known = this.#counted.get(key)
    const counted = known !== undefined && now < known.until ? known : { until: now + minuteMs, requests: 0 }
    counted.requests++
    this.#counted.set(key, counted)
    if (counted.requests <= maxPerMinute) return undefined
    const detail = `more than ${maxPerMinute} requests in a minute`
    return { reason: 'server_request_flood', detail, isFirst: counted.requests === maxPerMinute + 1 }
  }

  async #violation(
    call: Call,
    kind: AskedKind | 'unknown',
    action: RequestAction,
    { method, params }: AskedRequest,
  ): Promise<Violation | undefined> {
    if (kind === 'unknown')
      return { reason: 'server_request_unknown', detail: 'a method or mode that is not known' }
    if (action === 'deny') return { reason: 'server_request_denied', detail: `${method} is denied` }
    if (kind === 'sampling' || kind === 'roots') return undefined
    const text = askedText(params)
    if (lengthOf(text.texts) + lengthOf(text.names) > maxText)
      return { reason: 'server_request_denied', detail: `its texts have more than ${maxText} characters` }
    if (imitatesGateway(text, this.#options.ownHosts))
      return { reason: 'gateway_imitated', detail: 'its text or URL is like those of the gateway' }
    if (!this.#expectsCredential(call) && asksForSecret(text))
      return { reason: 'credential_requested', detail: 'it asks for a secret' }
    if (kind === 'elicitation_url') {
      const problem = urlProblem(params['url'], this.#hosts)
      return problem === undefined ? undefined : { reason: 'url_not_allowed', detail: problem }
    }
    return undefined
  }

  #expectsCredential({ parsedRequest }: Call): boolean {
    if (parsedRequest?.kind !== 'tool') return false
    return this.#expect
      .lookup([parsedRequest.reference])
      .some((matches) => matches[0]?.value.includes('credential') === true)
  }

  /** The mistake in the client's response; an error and a refusal of the user are always right. */
  async #replyProblem(
    call: Call,
    { method, params }: AskedRequest,
    { result, error }: JsonObject,
  ): Promise<string | undefined> {
    if (error !== undefined) return undefined
    if (!isJsonObject(result)) return 'without a result'
    if (method !== 'elicitation/create') return undefined
    const { action, content } = result
    if (action === 'decline' || action === 'cancel')
      return content === undefined ? undefined : 'declines with content'
    if (action !== 'accept') return 'without an action'
    if (params['mode'] === 'url') return content === undefined ? undefined : 'to a URL has content'
    const { requestedSchema } = params
    if (!isJsonObject(requestedSchema)) return 'to a form without a schema'
    const checked = await this.#options.schemas.check(digested(requestedSchema), content ?? {}, userOf(call))
    if (checked.kind === 'fits') return undefined
    return checked.kind === 'mismatch'
      ? `does not fit its form: ${checked.pointer || '/'} (${checked.keyword})`
      : `cannot be checked: ${checked.reason}`
  }

  #finding({ reason, detail }: Violation, call: Call, kind: string): Finding {
    const ruling = this.#config.effect === 'deny' ? 'deny' : 'report'
    const text = `server "${call.target.server}", ${kind}: ${detail}`
    return { reason, stage: 'protections', level: 'server', ruling, detail: text }
  }

  async #record(
    call: Call,
    kind: string,
    { params }: AskedRequest,
    finding: Finding | undefined,
  ): Promise<void> {
    const principal = call.get(identity)
    const { traceId, spanId } = call.trace
    const effect = finding === undefined ? 'reported' : effectOf(call, finding)
    const shown =
      finding ?? this.#finding({ reason: 'server_request_denied', detail: 'is allowed' }, call, kind)
    const event: GatewayEvent = {
      name: `server_requests/${kind}`,
      traceId,
      causeSpanId: spanId,
      decision: effect === 'deny' ? 'deny' : 'allow',
      findings: [{ ...shown, reason: finding?.reason ?? 'server_request', effect }],
      inputSha256: sha256Hex(canonicalizeExact(params).text),
      ...(principal === undefined ? {} : { tenant: principal.tenant, principal }),
    }
    await this.#options.record()?.(event)
  }
}

function effectOf(call: Call, finding: Finding) {
  const rule = call.get(verdict)
  return rule === undefined ? 'reported' : effectOnCall(finding, rule)
}

/** The elicitation with the name of its server before its message: the client knows only the gateway. */
function named(call: Call, { method, params }: AskedRequest): AskedRequest {
  const { message } = params
  const text = `Request of the server "${call.target.server}": ${typeof message === 'string' ? message : ''}`
  return { method, params: { ...params, message: text } }
}

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0)
}

/** The protection `server_requests`. */
export const serverRequestsProtection = defineProtection({
  schema: serverRequestsSchema,
  provides: [serverRequestRules],
  reasons: requestReasons,
  metrics: {
    svc_server_requests_total: { kind: 'counter', help: 'Requests of servers to clients.' },
    svc_server_requests_refused_total: {
      kind: 'counter',
      help: 'Requests of servers to clients, and responses to them, that were refused.',
    },
  },
  configure(settings, preset) {
    const config = serverRequestsConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      // With a misspelled name, the intended server would have the other settings.
      check: (bindings) =>
        unknownServers(['protections', 'server_requests', 'servers'], config.servers, bindings),
      create({ container, publicUrl }) {
        const clock = resolve(container, tokens.Clock)
        const schemas = new SchemaThread(clock)
        let record: RecordEvent | undefined
        const rules = new ServerRequestJudge(config, {
          schemas,
          ownHosts: publicUrl === undefined ? [] : [foldName(new URL(publicUrl).host)],
          meter: resolveOptional(container, tokens.Meter),
          now: () => clock.monotonic(),
          record: () => record,
        })
        return {
          async start() {
            record = resolveOptional(container, services.record)
          },
          handle(call, next) {
            call.set(serverRequestRules, rules)
            return next()
          },
          stop: () => schemas.close(),
        }
      },
    }
  },
})
