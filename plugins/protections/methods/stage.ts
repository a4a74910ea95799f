// Refuses methods that MCP does not have, of clients and of servers, and interfaces of tools that are not allowed.
import {
  after,
  type Call,
  type CallRequest,
  effectOnCall,
  type Finding,
  identity,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  type RecordEvent,
  resolve,
  resolveOptional,
  responseChange,
  type ServerMethodRules,
  type Stage,
  servedDefinition,
  serverMethodRules,
  services,
  tokens,
  verdict,
} from '@svc/core'
import { parseJsonObject, visibleInLine } from '@svc/core/json'
import { type ResponseRewriter, rewriteOutcome } from '@svc/core/response'
import { BoundedMap } from '@svc/core/store'
import { defineProtection } from '../shared/protection.js'
import { parseUrlHost, type UrlHost } from '../shared/url-hosts.js'
import { foreignOrigin, interfacesIn, isInterfaceUri, servesAppsAlone } from './apps.js'
import { type MethodsConfig, methodsConfig, methodsSchema } from './config.js'
import { ofClients, ofServers } from './known.js'

const methodReasons = ['method_unknown', 'app_denied', 'app_origin_denied'] as const

/** One record tells of all unknown methods of a server in this time, in milliseconds. */
const recordMs = 60_000
const maxServers = 1_000
const maxDefinitions = 2_000
const maxShown = 128

interface MethodsOptions {
  readonly meter: Meter | undefined
  /** Monotonic milliseconds. */
  now(): number
  /** Undefined if the policy has no records. Called at the start. */
  record(): RecordEvent | undefined
}

class MethodsStage implements Stage, ServerMethodRules {
  #config: MethodsConfig
  #options: MethodsOptions
  #record: RecordEvent | undefined
  #origins: readonly UrlHost[] | undefined
  #recorded = new BoundedMap<string, number>(maxServers)
  /** Whether a tool is for apps alone, by the hash of its definition. */
  #forApps = new BoundedMap<string, boolean>(maxDefinitions)

  constructor(config: MethodsConfig, options: MethodsOptions) {
    this.#config = config
    this.#options = options
    const { apps } = config
    this.#origins =
      typeof apps === 'string' ? undefined : apps.origins.flatMap((host) => parseUrlHost(host) ?? [])
  }

  async start(): Promise<void> {
    this.#record = this.#options.record()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    call.set(serverMethodRules, this)
    return after(call.request(), (request) =>
      after(this.#judge(call, request), () =>
        this.#config.apps !== 'pass' && (request.kind !== 'protocol' || request.rpcId !== undefined)
          ? this.#withoutInterfaces(call, request, next)
          : next(),
      ),
    )
  }

  /** Whether a server's request or notification may pass. */
  mayPass(call: Call, method: string): MaybePromise<boolean> {
    if (ofServers.has(method) || this.#config.allow.has(method)) return true
    return this.#mayPassUnknown(call, method)
  }

  async #mayPassUnknown(call: Call, method: string): Promise<boolean> {
    const { meter, now } = this.#options
    const { server } = call.target
    const finding = this.#finding('method_unknown', `server "${server}": ${shown(method)}`)
    const rule = call.get(verdict)
    const effect = rule === undefined ? 'reported' : effectOnCall(finding, rule)
    meter?.count('svc_methods_unknown_total')
    const until = this.#recorded.get(server)
    if (until === undefined || now() >= until) {
      this.#recorded.set(server, now() + recordMs)
      const principal = call.get(identity)
      await this.#record?.({
        name: 'methods/unknown',
        traceId: call.trace.traceId,
        causeSpanId: call.trace.spanId,
        decision: effect === 'deny' ? 'deny' : 'allow',
        findings: [{ ...finding, effect }],
        ...(principal === undefined ? {} : { tenant: principal.tenant, principal }),
      })
    }
    return effect !== 'deny'
  }

  #judge(call: Call, { kind, method, name }: CallRequest): MaybePromise<void> {
    const { allow, apps } = this.#config
    if (kind === 'protocol' && method != null && !ofClients.has(method) && !allow.has(method)) {
      this.#options.meter?.count('svc_methods_unknown_total')
      call.addFinding(this.#finding('method_unknown', `the method ${shown(method)} is not one of MCP`))
    }
    if (apps !== 'deny') return
    if (kind === 'resource' && isInterfaceUri(name))
      this.#denyApp(call, 'the resource is the interface of a tool')
    if (kind === 'tool') return this.#judgeTool(call)
  }

  async #judgeTool(call: Call): Promise<void> {
    const served = call.get(servedDefinition)
    for (const sha256 of served?.judging ?? []) {
      let isForApps = this.#forApps.get(sha256)
      if (isForApps === undefined) {
        isForApps = servesAppsAlone(parseJsonObject((await served?.text(sha256)) ?? '') ?? {})
        this.#forApps.set(sha256, isForApps)
      }
      if (isForApps) return this.#denyApp(call, 'the tool is for interfaces alone')
    }
  }

  #withoutInterfaces(call: Call, request: CallRequest, next: Next): MaybePromise<Outcome> {
    // A resumed stream would have the response as the server sent it.
    if (call.get(responseChange) === undefined) call.set(responseChange, true)
    const judged = <T>(value: T): T => {
      for (const one of interfacesIn(value)) {
        if (this.#origins === undefined) this.#denyApp(call, 'the response has the interface of a tool')
        const origin = this.#origins && foreignOrigin(one, this.#origins)
        if (origin === undefined) continue
        this.#options.meter?.count('svc_apps_refused_total')
        const detail = `an interface declares ${shown(origin)}, which is not one of the origins`
        call.addFinding({ ...this.#finding('app_origin_denied', detail), isLate: true })
      }
      return value
    }
    const rewriter: ResponseRewriter = {
      result: judged,
      error: (error) => error,
      message: judged,
      json: judged,
      text: (text) => text,
      unreadable: undefined,
      spansEvents: false,
    }
    return after(next(), (outcome) => rewriteOutcome(call, request, outcome, rewriter))
  }

  #denyApp(call: Call, detail: string): void {
    this.#options.meter?.count('svc_apps_refused_total')
    call.addFinding({ ...this.#finding('app_denied', detail), isLate: true })
  }

  #finding(reason: (typeof methodReasons)[number], detail: string): Finding {
    const ruling = this.#config.effect === 'deny' ? 'deny' : 'report'
    return { reason, stage: 'protections', level: 'gateway', ruling, detail }
  }
}

function shown(text: string): string {
  return visibleInLine(text.slice(0, maxShown))
}

/** The protection `methods`. */
export const methodsProtection = defineProtection({
  schema: methodsSchema,
  provides: [serverMethodRules],
  reasons: methodReasons,
  metrics: {
    svc_methods_unknown_total: {
      kind: 'counter',
      help: 'Requests and notifications with a method that MCP does not have.',
    },
    svc_apps_refused_total: {
      kind: 'counter',
      help: 'Interfaces of tools, and calls of tools for interfaces, that were refused.',
    },
  },
  configure(settings, preset) {
    const config = methodsConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      create({ container }) {
        const clock = resolve(container, tokens.Clock)
        return new MethodsStage(config, {
          meter: resolveOptional(container, tokens.Meter),
          now: () => clock.monotonic(),
          record: () => resolveOptional(container, services.record),
        })
      },
    }
  },
})
