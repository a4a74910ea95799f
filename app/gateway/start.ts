// startGatewayServer: a listening gateway, and its life cycle: start, reload, close.
import { join } from 'node:path'
import {
  type MaybePromise,
  type OpenSharedStore,
  type Plugin,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import type { Admin } from '../admin/admin.js'
import type { Blocks } from '../blocks/blocks.js'
import type { ListedTools } from '../doctor/tool-access.js'
import type { SessionBinding } from '../mcp/session-binding.js'
import { SharedState } from '../mcp/shared-state.js'
import { gatewayMetrics } from '../metrics/gateway-metrics.js'
import { GatewayState } from '../metrics/gateway-state.js'
import type { HostConfig, Policy } from '../policy/config.js'
import { settingsRequiringRestart } from '../policy/facts.js'
import type { TargetServers } from '../stdio-targets/servers.js'
import { GatewayBuilder } from './builder.js'
import { type CallListenerParts, type Listener, openCallListener } from './call-listener.js'
import { type GatewayBlocks, gatewayBlocks } from './gateway-blocks.js'
import type { ShadowStatus } from './gateway-shadow.js'
import { lazyConsole } from './lazy-console.js'
import { listenAdmin } from './listen-admin.js'
import type { GatewayOptions, GatewaySettings } from './options.js'
import { Policies, type PreparedPolicy } from './policies.js'
import { causeOfWatch, watchPolicy } from './policy-watch.js'
import { describeRefusal, type ReloadCause, type ReloadedPolicy } from './reload-records.js'
import { createDispatcher, createMcpProxy, createServers, createSharedServers } from './upstreams.js'
import type { PolicySource, WorkerLink } from './worker-link.js'

/** The addresses of a gateway that listens. */
export interface Listening {
  readonly port: number
  readonly url: string
  /** The URL of the admin listener, if the policy has one. */
  readonly adminUrl?: string
}

/** A running gateway. */
export interface GatewayHandle {
  /** Resolves when the gateway listens; rejects if it cannot. */
  ready(): Promise<Listening>
  /** Stops listening, waits for calls in flight, closes the log. May be called twice. */
  close(): Promise<void>
  /**
   * Puts a new policy (YAML text or an object) in force for the calls that follow. A policy that is not valid or cannot
   * start is refused, and the old one stays. Changed certificates are read; ports and addresses do not change.
   */
  reload(policy: string | Record<string, unknown>): Promise<void>
  readonly container: DependencyContainer
}

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
type OpenListener = (host: HostConfig, parts: CallListenerParts) => Promise<Listener>

interface GatewayParts {
  readonly openListener?: OpenListener
  /** If another process has the port of the admin listener, this gateway starts without one. */
  readonly sharesAdmin?: boolean
  /** Set in a worker. */
  readonly link?: WorkerLink
}

/** A policy that a worker has prepared for a reload. */
interface PreparedReload extends Pick<PreparedPolicy, 'record' | 'discard'> {
  /** `change` is for the worker that announces the reload. */
  commit(change: ReloadedPolicy | undefined): Promise<void>
}

export class Gateway implements GatewayHandle {
  readonly container: DependencyContainer
  #builder: GatewayBuilder
  #host: HostConfig | undefined
  #policies: Policies | undefined
  #parts: GatewayParts
  #listener: Listener | undefined
  #admin: Admin | undefined
  #metrics: GatewayState | undefined
  #blocks: Blocks | undefined
  #servers: TargetServers | undefined
  #upstreams: readonly { close(): Promise<void> }[] = []
  #state: SharedState
  #sessions: MaybePromise<SessionBinding> | undefined
  #ready: Promise<Listening>
  #closing: Promise<void> | undefined
  #watching: NodeJS.Timeout | undefined

  constructor(builder: GatewayBuilder, parts: GatewayParts = {}) {
    this.#builder = builder
    this.#parts = parts
    const clock = resolve(builder.bindings, tokens.Clock)
    this.#state = new SharedState(
      () =>
        resolveOptional(requireStarted(this.#policies).current.container, services.sharedStore) ??
        this.#hostStore,
      clock,
      builder.logger,
    )
    this.container = builder.container
    this.#ready = this.#start()
    // Its error is not lost: ready() rejects with it.
    this.#ready.catch(() => undefined)
  }

  ready(): Promise<Listening> {
    return this.#ready
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** What workers share if the policy has no store that all gateways share. */
  get #hostStore(): OpenSharedStore | undefined {
    if (this.#parts.link === undefined) return undefined
    const directory = join(this.#builder.stateDir(requireStarted(this.#host)), 'workers')
    return async () => {
      const { LmdbSharedStore } = await import('@svc/core/lmdb')
      return new LmdbSharedStore(directory, resolve(this.#builder.bindings, tokens.Clock))
    }
  }

  async #start(): Promise<Listening> {
    const policy = await this.#builder.policy()
    const { host } = policy
    const { server } = host
    const { bindings } = this.#builder
    this.#host = host
    const { stateDir } = this.#builder.stdioPlace(policy)
    const blocking = gatewayBlocks(this.#builder, stateDir, () => requireStarted(this.#policies))
    const admin = await this.#createAdmin(host, blocking)
    this.#metrics = this.#createMetrics()
    const memory = { state: this.#state, sessions: () => this.#sessionBinding(host) }
    const upstream = createDispatcher(bindings, server)
    const local = createServers(bindings, server, upstream)
    const { link } = this.#parts
    const servers = link === undefined ? local : await createSharedServers(local, server, link.commands)
    const calls = this.#metrics?.calls
    const policies = new Policies(this.#builder, server.drainMs, calls, servers, blocking.stage)
    const mcp = createMcpProxy(bindings, server, servers, memory)
    this.#admin = admin
    this.#policies = policies
    this.#servers = servers
    this.#upstreams = [servers, upstream]
    try {
      if (server.sessionKeyRef !== undefined) await memory.sessions()
      await policies.activate(policy)
      this.#blocks = blocking.blocks
      await blocking.blocks.start()
      const { sharesAdmin: isShared = false, openListener = openCallListener } = this.#parts
      const { logger } = this.#builder
      const adminUrl = await listenAdmin(async () => admin?.listen(), { isShared, logger })
      this.#builder.approvalPages.listening(adminUrl)
      this.#listener = await openListener(host, {
        link,
        builder: this.#builder,
        policies,
        mcp,
        upstream,
        draining: () => this.#closing !== undefined,
        warnings: () => [
          ...(admin?.warnings() ?? []),
          ...servers.warnings(),
          ...(blocking.blocks.isKnown
            ? []
            : ['every call is refused: the list of blocks could not be read yet']),
        ],
      })
      const listening = await this.#listener.listen()
      return { ...listening, ...(adminUrl === undefined ? {} : { adminUrl }) }
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
      this.#policies?.current.pipeline.unready().length === 0
    return new GatewayState(metrics, resolve(bindings, tokens.Clock), isReady)
  }

  /** Its code is loaded if the policy has such a listener. */
  async #createAdmin(host: HostConfig, blocking: GatewayBlocks): Promise<Admin | undefined> {
    if (host.admin === undefined) return undefined
    const [{ Admin }, { gatewayOperations }] = await Promise.all([
      import('../admin/admin.js'),
      import('./admin-operations.js'),
    ])
    return new Admin(host.admin, this.#builder.bindings, {
      activePolicy: () => requireStarted(this.#policies).current,
      draining: () => this.#closing !== undefined,
      operations: gatewayOperations({
        container: () => requireStarted(this.#policies).current.container,
        inForce: () => {
          const { policy } = requireStarted(this.#policies)
          const place = this.#builder.placeOf(policy.host)
          return { policy, place, blocks: blocking.blocks.list, blocking: blocking.stage }
        },
        load: () => this.#builder.anew(requireStarted(this.#policies).policy),
        loadText: (text) => this.#builder.policyFrom(text),
        blocking: () => blocking,
        url: async () => (await this.#ready).url,
        stateOf: (server) => this.#servers?.stateOf(server),
        listCommand: (server, address) => this.#listCommand(server, address),
        shadowStatus: async () => this.#parts.link?.shadow() ?? this.shadowStatus(),
        reloadFile: (cause) => this.reloadFile(cause),
      }),
      blockOf: (caller) => blocking.blocks.refusalOf(caller),
      console: lazyConsole(this.#builder.bindings, this.#state, () => this.#sessionBinding(host)),
      keyReader: (directories) => this.#builder.keyReader(host, directories),
      link: this.#parts.link,
    })
  }

  /** Starts nothing: only a process that runs, for all callers, is asked. */
  async #listCommand(server: string, address: string): Promise<ListedTools | undefined> {
    const target = requireStarted(this.#policies).policy.host.targets[server]
    const isShared = typeof target === 'object' && target.isolate === 'gateway'
    if (this.#servers === undefined || !isShared || this.#servers.stateOf(server)?.state !== 'up')
      return undefined
    const { listToolsOver } = await import('../doctor/listed-tools.js')
    return listToolsOver(this.#servers, server, address)
  }

  /** That of this process. */
  readonly shadowStatus = (): ShadowStatus | undefined => this.#policies?.shadow?.status

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
    await (this.#parts.link?.reload(source, cause) ?? this.#reload(() => source, cause))
  }

  /** Loads the file of the policy anew. Rejects as `reload` does, and with `PolicyError` if it cannot be read. */
  reloadFile(cause: ReloadCause): Promise<ReloadedPolicy> {
    const { link } = this.#parts
    return link?.reload(undefined, cause) ?? this.#reload(() => this.#builder.readPolicyFile(), cause)
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

  async #reload(read: () => PolicySource, cause: ReloadCause): Promise<ReloadedPolicy> {
    await this.#ready
    if (this.#closing !== undefined) throw new Error('the gateway is closing')
    try {
      const { policy, change } = await requireStarted(this.#policies).reload(read, cause)
      await this.#reloaded(policy, change)
      return change
    } catch (error) {
      this.#refused(error, cause)
      throw error
    }
  }

  /** For a worker: the first part of a reload. Rejects if the policy is not valid or cannot start. */
  async prepareReload(source: PolicySource, cause: ReloadCause): Promise<PreparedReload> {
    await this.#ready
    const prepared = await requireStarted(this.#policies).prepareReload(source, cause)
    return {
      ...prepared,
      commit: (change) => {
        prepared.commit()
        return this.#reloaded(prepared.policy, change)
      },
    }
  }

  /** For a worker: records and announces that the gateway keeps its policy. */
  async announceRefusal(error: Error, cause: ReloadCause): Promise<void> {
    await this.#policies?.recordRefusal(error, cause)
    this.#refused(error, cause)
  }

  /** Without `change` another worker announces it. */
  async #reloaded({ host }: Policy, change: ReloadedPolicy | undefined): Promise<void> {
    await Promise.all([this.#listener?.refresh(), this.#admin?.refresh()])
    if (change === undefined) return
    this.#warnOfRestart(host)
    this.#metrics?.countReload('success')
    this.#builder.logger.info(change, 'policy reloaded')
    this.#builder.notices.send({ type: 'policy.reloaded', data: { ...change } })
  }

  #refused(error: unknown, { by }: ReloadCause): void {
    this.#metrics?.countReload('refused')
    const message = describeRefusal(error)
    this.#builder.logger.error({ reason: message, by }, 'policy not reloaded; the old one stays in force')
    this.#builder.notices.send({ type: 'policy.refused', data: { message, by } })
  }

  #warnOfRestart(next: HostConfig): void {
    const settings = settingsRequiringRestart(requireStarted(this.#host), next)
    if (settings.length === 0) return
    this.#builder.logger.warn({ settings }, 'settings that take effect at the next start')
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
