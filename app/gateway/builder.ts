// Builds a pipeline from options: the part that the gateway and an embedded pipeline share.
import { randomBytes } from 'node:crypto'
import { dirname, join, resolve as resolvePath } from 'node:path'
import {
  bindDefault,
  type Logger,
  type Notices,
  type Plugin,
  type PluginContext,
  type PolicyHost,
  type Redactor,
  Resources,
  registeredPlugins,
  registerPlugin,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { messageOf, sha256Hex } from '@svc/core/json'
import { buildPipeline, callObserver, type Dispatch, type Pipeline } from '@svc/core/pipeline'
import { loadHost, loadPolicy, PolicyError, type PolicyLayer, pluginUses } from '@svc/core/policy'
import { KeyReader, loadOrCreateKey } from '@svc/core/secret'
import type { DependencyContainer } from 'tsyringe'
import { ApprovalPages } from '../admin/approval-pages.js'
import { WebhookNotices } from '../admin/notices/webhook-notices.js'
import { SessionBinding } from '../mcp/session-binding.js'
import type { SharedState } from '../mcp/shared-state.js'
import { AdminAuthorizer, AdminToken } from '../policy/admin-authorizer.js'
import { checkHost, checkSharedHost } from '../policy/check-host.js'
import { type HostConfig, hostSchema, type Policy } from '../policy/config.js'
import { callersOf, type PolicyPlace, policyHost, policyPlace } from '../policy/facts.js'
import { pluginContext } from '../policy/plugin-context.js'
import { sectionRules } from '../policy/plugins.js'
import { readPolicyText } from '../policy/policy-text.js'
import type { StdioPlace } from '../stdio/targets/launcher.js'
import { gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { noticeMetrics, shadowMetrics, stdioMetrics } from '../telemetry/metrics/metric-table.js'
import { createContainer, RunningContainer } from './container.js'
import { type ImportedPlugins, importPlugins, modulesOf } from './custom-plugins.js'
import { bindDefaults } from './defaults.js'
import { bindGiven, type GatewaySettings, layersOf } from './options.js'

/** The changes that a special kind of gateway makes to each valid policy. */
export interface PolicyAdaptation {
  host(host: HostConfig): HostConfig
  /** Who can send calls. */
  callers(host: HostConfig): PolicyHost['callers']
  /** Number of processes of the gateway, if there are several. */
  readonly workers?: number
  /** Whether another process logs the warnings of policies. */
  readonly isSilent?: boolean
  /** The texts of which the last has the hash for records, made from those of the policy. */
  texts(texts: readonly string[]): readonly string[]
}

const asGiven: PolicyAdaptation = { host: (host) => host, callers: callersOf, texts: (texts) => texts }

/** The process of a gateway of several, of which the first logs the warnings of policies. */
interface WorkerPlace {
  readonly count: number
  readonly number: number
  /** The ports, which the policy may leave open. */
  readonly ports: { readonly calls?: number; readonly admin?: number }
}

/** Adapts a policy to one of several processes that listen on the same port. */
export function asWorker({ count, number, ports: { calls, admin } }: WorkerPlace): PolicyAdaptation {
  return {
    ...asGiven,
    workers: count,
    isSilent: number > 0,
    host: (host) => ({
      ...host,
      port: calls ?? host.port,
      admin: host.admin && { ...host.admin, port: admin ?? host.admin.port },
    }),
  }
}

/** Adapts a policy to a pipeline without a listener: a program passes calls to it, or requests of a server of its own. */
export function withoutListener(callers: PolicyHost['callers']): PolicyAdaptation {
  return { ...asGiven, callers: () => callers }
}

export class GatewayBuilder {
  /** The user's bindings, and the defaults of tokens that no plugin owns. */
  readonly #bindings: DependencyContainer = createContainer()
  readonly #running = new RunningContainer(this.#bindings)
  readonly #plugins: readonly Plugin[]
  #options: GatewaySettings
  #resources = new Resources()
  #layers: readonly PolicyLayer[]
  /** The host's part of the options' policy. */
  readonly host: HostConfig
  #policy: Promise<Policy> | undefined
  #webhooks: WebhookNotices
  readonly approvalPages = new ApprovalPages()
  #adaptation: PolicyAdaptation
  #redactor: Redactor | undefined

  /**
   * Throws `PolicyError` if the configuration is wrong. If the policy names modules, only the host's part and the
   * presence of sections are judged here, as a module may own any section; the rest is judged by `policy()`.
   */
  constructor(options: GatewaySettings, adaptation = asGiven) {
    this.#adaptation = adaptation
    for (const plugin of options.plugins ?? []) registerPlugin(this.#bindings, plugin)
    options.configure?.(this.#bindings)
    this.#plugins = registeredPlugins(this.#bindings)
    this.#options = bindGiven(options, this.#plugins, this.#bindings)
    this.#layers = layersOf(this.#options)
    if (this.#modulesOf(this.#layers).length === 0) {
      const policy = this.#load(this.#layers)
      this.#policy = Promise.resolve(policy)
      this.host = policy.host
    } else {
      const result = loadHost(this.#inputOf(this.#layers))
      if (!result.ok) throw new PolicyError(result.mistakes)
      this.host = adaptation.host(result.host)
    }
    bindDefaults(this.#bindings, this.host.admin !== undefined)
    this.#webhooks = this.#createWebhooks(this.host)
    bindDefault(this.#bindings, tokens.Notices, { useValue: this.#webhooks })
    bindDefault(this.#bindings, services.approvalPage, {
      useValue: (id) => this.approvalPages.urlOf(id),
    })
  }

  #createWebhooks(host: HostConfig): WebhookNotices {
    const { container } = this.#running
    return new WebhookNotices({
      directory: join(this.#place(host).stateDir, 'notices'),
      clock: resolve(this.#bindings, tokens.Clock),
      logger: this.logger,
      meter: resolve(this.#bindings, tokens.Meter),
      signer: () => resolveOptional(container, tokens.Signer),
    })
  }

  /** Sends notices to webhooks, or to what code bound. */
  get notices(): Notices {
    return resolve(this.#bindings, tokens.Notices)
  }

  /** Ends deliveries of notices; to be called once, after the pipeline has stopped. */
  close(): Promise<void> {
    return this.#webhooks.close()
  }

  /** The bindings of the user and of the running pipeline. */
  get container(): DependencyContainer {
    return this.#running.container
  }

  /** The bindings for the parts of the gateway that no plugin owns. */
  get bindings(): DependencyContainer {
    return this.#bindings
  }

  /** Redacts the log of the gateway as its records; undefined if identities are not redacted, and before the start. */
  get redactor(): Redactor | undefined {
    return this.#redactor
  }

  get logger(): Logger {
    return resolve(this.#bindings, tokens.Logger)
  }

  /** The base of relative paths: the policy file's directory, else the working one. */
  get #baseDir(): string {
    const { policyFile } = this.#options
    return policyFile === undefined ? process.cwd() : dirname(resolvePath(policyFile))
  }

  /** The policy that the options have, with custom plugins imported; loaded once. Rejects with `PolicyError`. */
  policy(): Promise<Policy> {
    this.#policy ??= this.#loadWithModules(this.#layers)
    return this.#policy
  }

  /** The text of the policy's file as it is now. Throws `PolicyError` if there is none, or it cannot be read. */
  readPolicyFile(): string {
    const { policyFile, policyYaml, policyObject } = this.#options
    const isInFile = policyYaml === undefined && policyObject === undefined
    if (policyFile !== undefined && isInFile) return readPolicyText(policyFile)
    const message = 'the gateway was started without a policy file, so there is none to load anew'
    throw new PolicyError([{ severity: 'mistake', file: 'options', path: '', message }])
  }

  /** The same options with another policy, which `file` names in messages. Rejects with `PolicyError`. */
  async policyFrom(
    policy: string | Record<string, unknown>,
    file = this.#options.policyFile,
  ): Promise<Policy> {
    const { policyYaml: _yaml, policyObject: _object, ...rest } = this.#options
    const given = typeof policy === 'string' ? { policyYaml: policy } : { policyObject: policy }
    const named = file === undefined ? {} : { policyFile: file }
    return this.#loadWithModules(layersOf({ ...rest, ...given, ...named }))
  }

  async #loadWithModules(layers: readonly PolicyLayer[]): Promise<Policy> {
    return this.#load(layers, await importPlugins(this.#modulesOf(layers), this.#baseDir))
  }

  #modulesOf(layers: readonly PolicyLayer[]): string[] {
    return modulesOf(pluginUses({ layers, env: this.#env }), this.#plugins)
  }

  get #env(): NonNullable<PluginContext['env']> {
    return this.#options.env ?? process.env
  }

  #inputOf(layers: readonly PolicyLayer[]) {
    const { host: adaptHost, callers, workers } = this.#adaptation
    const several = workers === undefined ? {} : { workers }
    return {
      layers,
      host: hostSchema,
      policyHost: (host: HostConfig) => ({
        ...policyHost(adaptHost(host), this.#place(host), callers(host)),
        isForSeveral: Object.keys(host.targets).length === 0,
        ...several,
      }),
      checkHost: (host: HostConfig) => [
        ...checkHost(adaptHost(host), this.#place(host), callers(host)),
        ...(workers === undefined ? [] : checkSharedHost(host)),
      ],
      plugins: this.#plugins,
      ...sectionRules,
      bindings: this.#bindings,
      env: this.#env,
    }
  }

  #load(layers: readonly PolicyLayer[], custom: ImportedPlugins = new Map()): Policy {
    const { host: adaptHost, texts: adaptTexts } = this.#adaptation
    const result = loadPolicy({ ...this.#inputOf(layers), custom })
    if (!result.ok) throw new PolicyError(result.mistakes)
    const { host } = result.policy
    const texts = adaptTexts(result.policy.texts)
    const last = texts.at(-1)
    return {
      ...result.policy,
      host: adaptHost(host),
      texts,
      sha256: last === undefined ? null : sha256Hex(last),
    }
  }

  /** Decides what clients of the admin listener may do. Rejects if the admin token cannot be read. */
  async authorizer({ host, container }: Policy): Promise<AdminAuthorizer | undefined> {
    if (host.admin === undefined) return undefined
    const { tokenRef } = host.admin
    if (tokenRef === undefined) return new AdminAuthorizer(container, host.admin)
    const clock = resolve(this.#bindings, tokens.Clock)
    const token = new AdminToken(tokenRef, this.keyReader(host), clock)
    try {
      await token.check()
    } catch (cause) {
      throw new Error(`admin.tokenRef: ${messageOf(cause)}`, { cause })
    }
    return new AdminAuthorizer(container, host.admin, token)
  }

  /** The directory of the gateway's files. */
  stateDir(host: HostConfig): string {
    return this.#place(host).stateDir
  }

  /** Reads keys that the host part of the policy refers to; `directories` as `KeyReader` has them. */
  keyReader(host: HostConfig, directories?: readonly string[]): KeyReader {
    return new KeyReader(this.#place(host), directories)
  }

  /** The base of the paths and references of a policy. */
  placeOf(host: HostConfig): PolicyPlace {
    return this.#place(host)
  }

  /** The base of the paths and references of commands. */
  stdioPlace({ host, hostSecrets }: Policy): StdioPlace {
    const { baseDir } = this.#place(host)
    return { baseDir, keys: this.keyReader(host), substituted: hostSecrets }
  }

  /**
   * Uses the key that the policy names, else one in a store that all gateways share, else one kept in the gateway's
   * directory; if that fails, sessions last as long as this process. Rejects if a key that others share cannot be read.
   */
  async sessions(host: HostConfig, state: SharedState): Promise<SessionBinding> {
    const { sessionKeyRef: ref } = host.server
    const clock = resolve(this.#bindings, tokens.Clock)
    const shared = ref === undefined ? await state.secret('mcp-sessions') : undefined
    if (shared !== undefined) return new SessionBinding(shared, clock)
    const key = { fileName: 'mcp-sessions.key', ref, owner: 'server.sessionKeyRef' }
    try {
      return new SessionBinding(await loadOrCreateKey(key, this.#place(host)), clock)
    } catch (err) {
      if (ref !== undefined) throw err
      this.logger.warn({ err }, 'the key of MCP sessions cannot be kept: they end with this process')
      return new SessionBinding(randomBytes(32).toString('base64'), clock)
    }
  }

  /** The base of the paths and references of a policy. */
  #place(host: HostConfig): PolicyPlace {
    return policyPlace(host, this.#baseDir, this.#options.env)
  }

  /** Creates the stages, with a container of their own; nothing is opened before the pipeline starts. */
  build(policy: Policy, dispatch: Dispatch): BuiltPipeline {
    const warnings = this.#adaptation.isSilent === true ? [] : policy.warnings
    for (const { file, path, message } of warnings) this.logger.warn({ file, path }, message)
    const metrics = resolveOptional(this.#bindings, gatewayMetrics)
    metrics?.declare(noticeMetrics)
    metrics?.declare(stdioMetrics)
    metrics?.declare(shadowMetrics)
    const container = policy.container.createChildContainer()
    const context = pluginContext(policy, {
      container,
      resources: this.#resources,
      warn: (message) => this.logger.warn({}, message),
      ...this.#place(policy.host),
    })
    const observers = [resolveOptional(this.#bindings, callObserver), metrics?.stages]
    const listening = observers.filter((observer) => observer !== undefined)
    const pipeline = buildPipeline(policy, context, dispatch, listening)
    const takeOver = (): void => {
      this.#running.switchTo(container, policy.plugins)
      this.#redactor = resolveOptional(container, services.redactor)
      this.approvalPages.use(policy.host.admin)
      this.#webhooks.use(policy.host.notices, this.keyReader(policy.host))
    }
    return { pipeline, container, takeOver }
  }
}

interface BuiltPipeline {
  readonly pipeline: Pipeline
  /** The container of this policy alone. */
  readonly container: DependencyContainer
  /** Makes the gateway's container resolve what this pipeline runs. */
  takeOver(): void
}
