// startGatewayServer: a listening gateway, and its life: reload, drain, close.
import { bindDefault, CORE_VERSION, resolve, tokens } from '@svc/core'
import type { Dispatch } from '@svc/core/policy'
import type { DependencyContainer } from 'tsyringe'
import { Admin } from '../admin/admin.js'
import { GatewayHandler } from '../http/handler.js'
import { invokePath } from '../http/invoke.js'
import { HttpServer } from '../http/server.js'
import { McpFace } from '../mcp/face.js'
import type { Sessions } from '../mcp/sessions.js'
import { LearnedAnnotations } from '../mcp/tool-annotations.js'
import { Certificates } from '../tls/certificates.js'
import { type UpstreamDispatcher, upstreamDispatcher } from '../upstream/dispatcher.js'
import { dispatchInvoke } from '../upstream/invoke.js'
import { UndiciDispatcher } from '../upstream/undici.js'
import { changedAtStartOnly } from './at-start.js'
import { GatewayBuilder, type Policy } from './builder.js'
import type { HostConfig } from './config.js'
import { Generation } from './generation.js'
import type { GatewayOptions } from './options.js'
import { TenantCalls } from './tenant-calls.js'

/** Longest wait for handlers whose connections were closed. */
const closeMs = 1_000

/** A larger answer streams; a smaller one is held back until its record is durable. */
const wholeUpToBytes = 1024 * 1024

/** Who asks MCP servers for their version. */
const mcpClient = { name: 'svc-gateway', version: CORE_VERSION }

/** Where a gateway listens. */
export interface Listening {
  readonly port: number
  readonly url: string
  /** Of the admin listener, where the policy has one. */
  readonly adminUrl?: string
}

export interface GatewayHandle {
  /** Resolves when the gateway listens; rejects when it cannot. */
  ready(): Promise<Listening>
  /** Stops listening, lets calls in flight end, closes the log. Safe twice. */
  close(): Promise<void>
  /**
   * Takes up a new policy (YAML text or an object) for the calls that follow. A policy that is wrong or
   * cannot start is refused, and the old one stays. What the server listens on does not change, but changed
   * certificates are taken up.
   */
  reload(policy: string | Record<string, unknown>): Promise<void>
  readonly container: DependencyContainer
}

/**
 * Starts a gateway. Throws at once when the configuration of a built-in section is wrong (`PolicyError`
 * lists every mistake); what needs a module, a key or a store to be opened fails in `ready()`.
 */
export function startGatewayServer(options: GatewayOptions): GatewayHandle {
  return new Gateway(new GatewayBuilder(options))
}

class Gateway implements GatewayHandle {
  readonly container: DependencyContainer
  #builder: GatewayBuilder
  #generation: Generation | undefined
  #server: HttpServer | undefined
  #upstream: UpstreamDispatcher | undefined
  #mcp: McpFace | undefined
  #sessions: Promise<Sessions> | undefined
  #tls: Certificates | undefined
  #started: HostConfig | undefined
  #admin: Admin | undefined
  #drainMs = 0
  #ready: Promise<Listening>
  #closing: Promise<void> | undefined
  #reloading: Promise<unknown> = Promise.resolve()
  #retiring = new Set<Promise<void>>()

  constructor(builder: GatewayBuilder) {
    this.#builder = builder
    this.container = builder.container
    this.#ready = this.#start()
    // Whoever asks ready() is told; whoever does not still finds it in the log.
    this.#ready.catch((fault: unknown) => builder.logger.error({ err: fault }, 'the gateway did not start'))
  }

  ready(): Promise<Listening> {
    return this.#ready
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  reload(policy: string | Record<string, unknown>): Promise<void> {
    const next = this.#reloading.then(() => this.#reload(policy))
    // The next reload waits for this one, however it ends; its caller is told by `next`.
    this.#reloading = next.then(
      () => undefined,
      () => undefined,
    )
    return next
  }

  async #start(): Promise<Listening> {
    const policy = await this.#builder.policy()
    this.#started = policy.host
    this.#drainMs = policy.host.server.drainMs
    this.#admin = this.#adminOf(policy.host)
    this.#bindUpstream(policy.host)
    this.#upstream = resolve(this.#builder.bindings, upstreamDispatcher)
    this.#mcp = this.#mcpFace(this.#upstream, policy.host)
    try {
      if (policy.host.server.sessionKeyRef !== undefined) await this.#sessionsOf(policy.host)
      this.#generation = await this.#startStages(policy)
      const adminUrl = await this.#admin?.listen()
      const listening = await this.#listen(policy.host)
      return { ...listening, ...(adminUrl === undefined ? {} : { adminUrl }) }
    } catch (fault) {
      await this.#release()
      throw fault
    }
  }

  #adminOf(host: HostConfig): Admin | undefined {
    if (host.admin === undefined) return undefined
    return new Admin(host.admin, this.#builder.bindings, {
      generation: () => started(this.#generation),
      draining: () => this.#closing !== undefined,
      keyReader: (directories) => this.#builder.keyReader(host, directories),
    })
  }

  #bindUpstream({ server }: HostConfig): void {
    bindDefault(this.#builder.bindings, upstreamDispatcher, {
      useFactory: () =>
        new UndiciDispatcher({
          connectTimeoutMs: server.connectTimeoutMs,
          headersTimeoutMs: server.upstreamTimeoutMs,
          idleTimeoutMs: server.upstreamIdleMs,
          wholeUpToBytes: Math.min(server.maxAnswerBytes, wholeUpToBytes),
        }),
    })
  }

  /** One key for the gateway's life, made when the first session begins. */
  #sessionsOf(host: HostConfig): Promise<Sessions> {
    this.#sessions ??= this.#builder.sessions(host)
    return this.#sessions
  }

  #mcpFace(dispatcher: UpstreamDispatcher, host: HostConfig): McpFace {
    const { server } = host
    const clock = resolve(this.#builder.bindings, tokens.Clock)
    const annotations = new LearnedAnnotations(clock)
    bindDefault(this.#builder.bindings, tokens.ToolAnnotations, { useValue: annotations })
    return new McpFace({
      sessions: () => this.#sessionsOf(host),
      dispatcher,
      clock,
      annotations,
      caps: { maxAnswerBytes: server.maxAnswerBytes, maxEventBytes: server.maxAnswerBytes },
      client: mcpClient,
      probeTimeoutMs: server.upstreamTimeoutMs,
    })
  }

  async #listen(host: HostConfig): Promise<Listening> {
    const { server, port, tenant } = host
    const certificates = await this.#certificates(host)
    const handler = new GatewayHandler({
      clock: resolve(this.#builder.bindings, tokens.Clock),
      ids: resolve(this.#builder.bindings, tokens.Ids),
      logger: this.#builder.logger,
      maxBodyBytes: server.maxBodyBytes,
      mcp: started(this.#mcp),
      tenantCalls: new TenantCalls(server.maxCallsPerTenant, tenant),
      generation: () => started(this.#generation),
      draining: () => this.#closing !== undefined,
      warnings: () => [...(certificates?.warnings() ?? []), ...(this.#admin?.warnings() ?? [])],
    })
    this.#server = new HttpServer(
      { ...server, port },
      (message, response) => handler.handle(message, response),
      this.#builder.logger,
      {
        knowsHost: (name) => started(this.#generation).hosts.has(name),
        meter: resolve(this.#builder.bindings, tokens.Meter),
        ...(certificates === undefined ? {} : { tls: certificates.serverOptions }),
      },
    )
    const listening = await this.#server.listen()
    certificates?.watch((context) => this.#server?.setSecureContext(context))
    return listening
  }

  async #certificates(host: HostConfig): Promise<Certificates | undefined> {
    const { tls } = host.server
    if (tls === undefined) return undefined
    this.#tls = await Certificates.open(tls, {
      reader: this.#builder.keyReader(host, tls.dirs),
      clock: resolve(this.#builder.bindings, tokens.Clock),
      logger: this.#builder.logger,
    })
    return this.#tls
  }

  async #startStages(policy: Policy): Promise<Generation> {
    const dispatch: Dispatch = async (call) => {
      if (call.face === 'mcp') return started(this.#mcp).dispatch(call)
      const request = await call.request()
      const target = generation.target(request.server)
      if (generation.isMcp(request.server)) return started(this.#mcp).dispatchTool(call, target)
      return dispatchInvoke(call, target, invokePath(target, request), started(this.#upstream))
    }
    const authority = await this.#builder.authority(policy)
    const { pipeline, takeOver } = this.#builder.build(policy, dispatch)
    const generation = new Generation(pipeline, policy.host, { authority, calls: this.#admin?.calls })
    await pipeline.start()
    takeOver()
    return generation
  }

  async #reload(policy: string | Record<string, unknown>): Promise<void> {
    await this.#ready
    if (this.#closing !== undefined) throw new Error('the gateway is closing')
    const next = await this.#next(policy)
    const old = started(this.#generation)
    this.#generation = next
    // The old policy's calls end in their own time; the reload is done when the new one serves.
    const retiring = old
      .drain(this.#drainMs)
      .then(() => old.pipeline.stop())
      .catch((fault: unknown) =>
        this.#builder.logger.error({ err: fault }, 'the old policy did not stop cleanly'),
      )
      .finally(() => this.#retiring.delete(retiring))
    this.#retiring.add(retiring)
  }

  async #next(policy: string | Record<string, unknown>): Promise<Generation> {
    try {
      const read = await this.#builder.policyFrom(policy)
      const next = await this.#startStages(read)
      const settings = changedAtStartOnly(started(this.#started), read.host)
      if (settings.length > 0) {
        this.#builder.logger.warn({ settings }, 'settings that take effect at the next start')
      }
      await Promise.all([this.#tls?.refresh(), this.#admin?.refresh()])
      this.#admin?.reloaded('taken')
      return next
    } catch (fault) {
      this.#admin?.reloaded('refused')
      throw fault
    }
  }

  async #close(): Promise<void> {
    // A gateway that never came up has nothing to drain; ready() has told why.
    await this.#ready.catch(() => undefined)
    this.#server?.stopListening()
    await this.#reloading
    this.#generation?.endStreams()
    await Promise.all([...this.#retiring, this.#generation?.drain(this.#drainMs)])
    // Until here a request on an open connection is refused and recorded like any other call.
    await this.#server?.close(closeMs)
    await this.#release()
  }

  async #release(): Promise<void> {
    await this.#admin?.close()
    const generation = this.#generation
    this.#generation = undefined
    this.#tls?.close()
    try {
      await generation?.pipeline.stop()
    } finally {
      await this.#upstream?.close()
    }
  }
}

function started<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('the gateway has not started')
  return part
}
