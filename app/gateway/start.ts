// startGatewayServer: a listening gateway, and its life cycle: start, reload, close.

import { join } from 'node:path'
import {
  type MaybePromise,
  type OpenKeyValueStore,
  type Plugin,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { defined } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import type { Admin } from '../admin/admin.js'
import type { Blocks } from '../blocks/blocks.js'
import type { SessionBinding } from '../mcp/session-binding.js'
import { SharedState } from '../mcp/shared-state.js'
import type { HostConfig, Policy } from '../policy/config.js'
import { settingsRequiringRestart } from '../policy/facts.js'
import type { StdioServers } from '../stdio/targets/servers.js'
import { gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { GatewayState } from '../telemetry/metrics/gateway-state.js'
import { GatewayBuilder } from './builder.js'
import { type CallListenerOptions, type Listener, openCallListener } from './call-listener.js'
import { type GatewayBlocks, gatewayBlocks } from './gateway-blocks.js'
import { gatewayFacts } from './gateway-facts.js'
import type { GatewayHandle, Listening } from './gateway-handle.js'
import { listenAdmin } from './listen-admin.js'
import type { GatewayOptions, GatewaySettings } from './options.js'
import { Policies } from './policies.js'
import { causeOfWatch, watchPolicy } from './policy-watch.js'
import { describeRefusal, type ReloadCause, type ReloadedPolicy } from './reload-records.js'
import { createDispatcher, createMcpProxy, createServers } from './upstreams.js'
import type { WorkerLink } from './worker-link.js'

/**
 * Starts a gateway. Throws at once if the configuration of a built-in section is wrong (`PolicyError` lists every
 * mistake); errors of modules, keys and stores reject `ready()`.
 */
export function startGatewayServer<const Plugins extends readonly Plugin[] = readonly []>(
  options: GatewayOptions<Plugins>,
): GatewayHandle
export function startGatewayServer(options: GatewaySettings): GatewayHandle {
  const builder = new GatewayBuilder(options)
  const gateway = new Gateway(builder)
  // The log has it too, as not every program awaits ready().
  gateway.ready().catch((error: unknown) => builder.logger.error({ err: error }, 'the gateway did not start'))
  return gateway
}

/** Opens the source of requests. */
type OpenListener = (host: HostConfig, options: CallListenerOptions) => Promise<Listener>

interface GatewayDependencies {
  readonly openListener?: OpenListener
  /** If another process has the port of the admin listener, this gateway starts without one. */
  readonly sharesAdmin?: boolean
  /** Set if the gateway has several processes. */
  readonly link?: WorkerLink
}

export class Gateway implements GatewayHandle {
  readonly container: DependencyContainer
  #builder: GatewayBuilder
  #host: HostConfig | undefined
  #policies: Policies | undefined
  #dependencies: GatewayDependencies
  #listener: Listener | undefined
  #admin: Admin | undefined
  #metrics: GatewayState | undefined
  #blocks: Blocks | undefined
  #announcements: Announcements
  #servers: StdioServers | undefined
  #upstreams: readonly { close(): Promise<void> }[] = []
  #state: SharedState
  #sessions: MaybePromise<SessionBinding> | undefined
  #ready: Promise<Listening>
  #closing: Promise<void> | undefined
  #watching: NodeJS.Timeout | undefined

  constructor(builder: GatewayBuilder, dependencies: GatewayDependencies = {}) {
    this.#builder = builder
    this.#dependencies = dependencies
    const clock = resolve(builder.bindings, tokens.Clock)
    this.#state = new SharedState(
      () =>
        resolveOptional(requireStarted(this.#policies).current.container, services.sharedStore) ??
        this.#hostStore,
      clock,
      builder.logger,
    )
    this.container = builder.container
    this.#announcements = new Announcements(builder, () => this.#metrics)
    this.#ready = this.#start()
    // Its error is not lost: ready() rejects with it.
    this.#ready.catch(() => undefined)
  }

  ready(): Promise<Listening> {
    return this.#ready
  }

  close(): Promise<void> {
    if (this.#policies !== undefined) this.#policies.isDraining = true
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** The store that the processes of this host share if the policy has none that all gateways share. */
  get #hostStore(): OpenKeyValueStore | undefined {
    if (this.#dependencies.link === undefined) return undefined
    const directory = join(this.#builder.stateDir(requireStarted(this.#host)), 'workers')
    return async () => {
      const { LmdbKeyValueStore } = await import('@svc/core/lmdb')
      const clock = resolve(this.#builder.bindings, tokens.Clock)
      return new LmdbKeyValueStore({ dir: directory, name: 'the shared store', clock })
    }
  }

  async #start(): Promise<Listening> {
    const policy = await this.#builder.policy()
    const { host } = policy
    const { server } = host
    const { bindings } = this.#builder
    this.#host = host
    const blocking = gatewayBlocks(this.#builder, this.#builder.stateDir(host), () =>
      requireStarted(this.#policies),
    )
    const admin = await this.#createAdmin(host, blocking)
    this.#metrics = this.#createMetrics()
    const memory = { state: this.#state, sessions: () => this.#sessionBinding(host) }
    const upstream = createDispatcher(bindings, server)
    const servers = createServers(bindings, server, upstream)
    const calls = this.#metrics?.calls
    const policies = new Policies(this.#builder, server.drainMs, calls, servers)
    const mcp = createMcpProxy(bindings, server, servers, memory)
    this.#admin = admin
    policies.isDraining = this.#closing !== undefined
    this.#policies = policies
    this.#servers = servers
    this.#upstreams = [servers, upstream]
    try {
      if (server.sessionKeyRef !== undefined) await memory.sessions()
      await policies.activate(policy)
      this.#blocks = blocking.blocks
      await blocking.blocks.start()
      const { sharesAdmin: isShared = false, openListener = openCallListener } = this.#dependencies
      const { logger } = this.#builder
      const adminUrl = await listenAdmin(async () => admin?.listen(), { isShared, logger })
      if (adminUrl !== undefined) this.#builder.approvalPages.listening(Number(new URL(adminUrl).port))
      this.#listener = await openListener(host, {
        reusePort: this.#dependencies.link !== undefined,
        builder: this.#builder,
        policies,
        mcp,
        upstream,
        warnings: () => [blocking, admin, servers].flatMap((part) => part?.warnings() ?? []),
      })
      const listening = await this.#listener.listen()
      return { ...listening, ...defined({ adminUrl }) }
    } catch (error) {
      await this.#release()
      throw error
    }
  }

  #createMetrics(): GatewayState | undefined {
    const { bindings } = this.#builder
    const metrics = resolveOptional(bindings, gatewayMetrics)
    if (metrics === undefined) return undefined
    const isReady = (): boolean =>
      this.#listener !== undefined &&
      this.#closing === undefined &&
      this.#policies?.current.pipeline.problems('down').length === 0
    return new GatewayState(metrics, resolve(bindings, tokens.Clock), isReady)
  }

  /** Its code is loaded if the policy has such a listener. */
  async #createAdmin(host: HostConfig, blocking: GatewayBlocks): Promise<Admin | undefined> {
    const { link } = this.#dependencies
    if (host.admin === undefined || link?.hasAdmin === false) return undefined
    const { createAdmin } = await import('./create-admin.js')
    return createAdmin(host, host.admin, {
      builder: this.#builder,
      policies: () => requireStarted(this.#policies),
      draining: () => this.#closing !== undefined,
      url: async () => (await this.#ready).url,
      reloadFile: (cause) => this.reloadFile(cause),
      state: this.#state,
      sessions: () => this.#sessionBinding(host),
      facts: gatewayFacts(() => ({
        policies: requireStarted(this.#policies),
        servers: requireStarted(this.#servers),
      })),
      servers: () => requireStarted(this.#servers),
      link,
      blocking,
    })
  }

  /** One key for the gateway's life, created when the first session begins. */
  #sessionBinding(host: HostConfig): MaybePromise<SessionBinding> {
    this.#sessions ??= this.#builder.sessions(host, this.#state).then(
      (sessions) => {
        this.#sessions = sessions
        return sessions
      },
      (error: unknown) => {
        // The next session tries again.
        this.#sessions = undefined
        throw error
      },
    )
    return this.#sessions
  }

  async reload(source: string | Record<string, unknown>): Promise<void> {
    const cause = { by: 'code' }
    await this.#reload(() => source, cause)
  }

  /** Loads the file of the policy anew. Rejects as `reload` does, and with `PolicyError` if it cannot be read. */
  reloadFile(cause: ReloadCause): Promise<ReloadedPolicy> {
    return this.#reload(() => this.#builder.readPolicyFile(), cause)
  }

  /**
   * Loads the file of the policy whenever it has a new content, which has settled. Ends with the gateway. To be called
   * once, after the start.
   */
  watchPolicy(file: string): void {
    const { bindings, logger } = this.#builder
    this.#watching = watchPolicy({
      file,
      clock: resolve(bindings, tokens.Clock),
      logger,
      current: () => requireStarted(this.#policies).text,
      load: (text) => this.#reload(() => text, causeOfWatch),
    })
  }

  async #reload(read: () => string | Record<string, unknown>, cause: ReloadCause): Promise<ReloadedPolicy> {
    await this.#ready
    if (this.#closing !== undefined) throw new Error('the gateway is closing')
    try {
      const { policy, change } = await requireStarted(this.#policies).reload(read, cause)
      await this.#reloaded(policy, change)
      return change
    } catch (error) {
      this.#announcements.refused(error, cause)
      throw error
    }
  }

  async #reloaded({ host }: Policy, change: ReloadedPolicy): Promise<void> {
    await Promise.all([this.#listener?.refresh(), this.#admin?.refresh()])
    this.#announcements.reloaded(change, requireStarted(this.#host), host)
  }

  async #close(): Promise<void> {
    // A gateway that did not start has nothing to drain; ready() rejects with the reason.
    await this.#ready.catch(() => undefined)
    clearInterval(this.#watching)
    this.#listener?.stopListening()
    await this.#policies?.drain()
    // Until here a request on an open connection is refused and recorded like any other call.
    await this.#listener?.close()
    await this.#release()
  }

  async #release(): Promise<void> {
    await this.#admin?.close()
    // Before the log, in which the end of a block is recorded.
    await this.#blocks?.close()
    try {
      await this.#policies?.stop()
    } finally {
      const opened = [...this.#upstreams, this.#state, this.#builder]
      await Promise.all(opened.map((one) => one.close()))
    }
  }
}

function requireStarted<T>(part: T | undefined): T {
  if (part === undefined) throw new Error('the gateway has not started')
  return part
}

/** Announces reloads: in the log, as notices, and in metrics. */
class Announcements {
  #builder: Pick<GatewayBuilder, 'logger' | 'notices'>
  #metrics: () => Pick<GatewayState, 'countReload'> | undefined

  /** `metrics` is called for each reload. */
  constructor(
    builder: Pick<GatewayBuilder, 'logger' | 'notices'>,
    metrics: () => Pick<GatewayState, 'countReload'> | undefined,
  ) {
    this.#builder = builder
    this.#metrics = metrics
  }

  /** `started` is the configuration with which the gateway has started. */
  reloaded(change: ReloadedPolicy, started: HostConfig, next: HostConfig): void {
    const { logger, notices } = this.#builder
    const settings = settingsRequiringRestart(started, next)
    if (settings.length > 0) logger.warn({ settings }, 'settings that take effect at the next start')
    this.#metrics()?.countReload('success')
    logger.info(change, 'policy reloaded')
    notices.send({ type: 'policy.reloaded', data: { ...change } })
  }

  refused(error: unknown, { by }: ReloadCause): void {
    const { logger, notices } = this.#builder
    const message = describeRefusal(error)
    this.#metrics()?.countReload('refused')
    logger.error({ reason: message, by }, 'policy not reloaded; the old one stays in force')
    notices.send({ type: 'policy.refused', data: { message, by } })
  }
}
