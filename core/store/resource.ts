// The store of a section: chosen by the policy or bound in code, imported on use, shared across reloads, connected at
// the start, and guarded.

import { join, resolve } from 'node:path'
import type { DependencyContainer } from 'tsyringe'
import { checkDirectory } from '../disk/check-directory.js'
import { checkSkew, checkUsable, clockSkew, type DoctorCheck } from '../doctor/check.js'
import { canonicalize } from '../json/canonical.js'
import { sha256Hex } from '../json/hash.js'
import { messageOf } from '../json/message.js'
import type { Counters } from '../plugin/counters.js'
import { hostClock } from '../plugin/host-clock.js'
import type { KeyValueStore, OpenKeyValueStore } from '../plugin/key-value-store.js'
import type { ConfigConflict, PluginContext } from '../plugin/plugin.js'
import { hostOf } from '../plugin/policy-tokens.js'
import { services } from '../plugin/services.js'
import type { StageHealth } from '../plugin/stage.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'
import { bind, bindDefault, type Clock, resolveOptional, type Token, tokens } from '../plugin/tokens.js'
import { type GuardOptions, guarded } from './guard.js'
import { MemoryKeyValueStore } from './key-value/memory.js'
import { checkHeader, loadLmdb } from './lmdb/prerequisites.js'
import type { RedisKeyValueOptions } from './redis/key-value.js'

type RedisOptions = Omit<RedisKeyValueOptions, 'url' | 'keyPrefix' | 'clock' | 'socketTimeoutMs'>

/** A section's settings of its store. */
interface StoreSettings {
  /** Directory of a store on disk, relative to the policy's directory. */
  readonly dir?: string | undefined
  readonly redisUrl?: string | undefined
  /** The section's `redis` object. */
  readonly redis?: (RedisOptions & { readonly keyPrefix?: string | undefined }) | undefined
  /** Prefix of the keys, if it is not part of `redis`. */
  readonly namespace?: string | undefined
  /** Timeout of an operation in milliseconds. */
  readonly timeoutMs: number
}

export interface StoreOptions<T> extends Omit<GuardOptions<T>, 'timeoutMs'> {
  /** The section: names the directory below the state directory, and the leases. */
  readonly section: string
  readonly kind: 'memory' | 'lmdb' | 'redis'
  /** Returns the store of the section on a store of keys, values and counters. */
  layer(store: KeyValueStore & Counters): T
  readonly settings: StoreSettings
  /** A store that the user made: it is used in place of every kind, and the user closes it, unless it is opened here. */
  readonly instance?:
    | { readonly name: string; readonly store: T }
    | { readonly name: string; readonly open: () => T }
    | undefined
  /** The consequence of an eviction by Redis, for a warning. */
  readonly whenEvicted?: string
  /** The gateway starts even if the store is not available. */
  readonly isOptional?: boolean
}

export class StoreResource<T extends StoreLifecycle> {
  readonly clock: Clock
  readonly name: string
  /** The kind that the policy names, or the name of the store from code. */
  readonly source: string
  #options: StoreOptions<T>
  #context: PluginContext
  #key: string
  #running: T | undefined
  /** Released last to first, so that resources attached to the store close before it. */
  #leases: { release(): Promise<void> }[] = []

  constructor(options: StoreOptions<T>, context: PluginContext) {
    // A tool that judges calls keeps what it counts in memory, whatever store the policy has.
    const isInMemory = resolveOptional(context.container, services.inMemory) === true
    this.#options = isInMemory ? { ...options, kind: 'memory', instance: undefined } : options
    const { section, kind, settings, instance, name } = this.#options
    this.name = name
    this.source = options.instance?.name ?? options.kind
    this.#context = context
    this.clock = resolveOptional(context.container, tokens.Clock) ?? hostClock
    // The whole configuration of the store, hashed because the URL may contain a password.
    const { redisUrl, redis, namespace, timeoutMs } = settings
    const place =
      kind === 'redis' ? { redisUrl, redis: { ...redis }, namespace, timeoutMs } : { dir: this.#dir }
    this.#key = `${section}:${instance?.name ?? `${kind} ${sha256Hex(canonicalize(place))}`}`
  }

  /** The guarded store. @throws {Error} before the start and after the stop */
  get running(): T {
    if (this.#running === undefined) throw new Error(`the ${this.name} is not open`)
    return this.#running
  }

  /** Rejects when the store cannot be opened or connected. Idempotent. */
  async start(signal: AbortSignal): Promise<void> {
    if (this.#running !== undefined) return
    const { settings, ...options } = this.#options
    const { clock } = this
    try {
      const store = await this.#open()
      await store.connect?.(signal).catch((error: unknown) => {
        if (options.isOptional !== true) throw error
        this.#context.warn(`${options.section}: ${messageOf(error)}; the gateway keeps trying to connect`)
      })
      const { container } = this.#context
      const [logger, meter] = [
        resolveOptional(container, tokens.Logger),
        resolveOptional(container, tokens.Meter),
      ]
      this.#running = guarded(store, { ...options, timeoutMs: settings.timeoutMs }, { clock, logger, meter })
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  /** Closes the store unless another generation uses it. Safe twice, and without a start. */
  async stop(): Promise<void> {
    this.#running = undefined
    for (const lease of this.#leases.splice(0).reverse()) await lease.release()
  }

  /** The store that all gateways share; undefined for a store on this host or bound in code. */
  get sharedStore(): OpenKeyValueStore | undefined {
    const { instance, kind } = this.#options
    return instance === undefined && kind === 'redis' ? () => this.#connect() : undefined
  }

  /** The store of the board of the gateways that share this one; undefined for a store in memory or bound in code. */
  get board(): OpenKeyValueStore | undefined {
    const { instance, kind } = this.#options
    if (instance !== undefined || kind !== 'lmdb') return this.sharedStore
    return () => this.#openOnDisk('board', join(this.#dir, 'board'))
  }

  /** `down`: calls that need the store are refused now. */
  health(): StageHealth | undefined {
    const store = this.#running
    const reason = store === undefined ? `the ${this.name} is not open` : store.ready?.()
    if (reason !== undefined) return { state: 'down', reason }
    const warning = store?.warning?.()
    return warning === undefined ? undefined : { state: 'warning', reason: warning }
  }

  /** Checks the store for `svc doctor`. A store on disk is not opened, because that makes its files. */
  async doctor(): Promise<readonly DoctorCheck[]> {
    const { kind, instance, isOptional } = this.#options
    if (instance !== undefined && 'store' in instance)
      return [{ severity: 'ok', message: `the ${this.name} is ${instance.name}, which is not checked` }]
    if (instance === undefined && kind === 'lmdb') return this.#checkDisk()
    const severity = isOptional === true ? 'warning' : 'error'
    try {
      await this.start(new AbortController().signal)
      const problem = this.health()
      if (problem?.state === 'down') return [{ severity, message: problem.reason, hint: unreachable }]
      if (problem !== undefined) return [{ severity: 'warning', message: problem.reason }]
      return [
        { severity: 'ok', message: `the ${this.name} (${this.source}) can be used` },
        ...this.#checkClock(),
      ]
    } catch (error) {
      return [{ severity, message: `the ${this.name}: ${messageOf(error)}` }]
    } finally {
      await this.stop()
    }
  }

  /** Acquires, after the start, a resource that survives reloads with the store. `name` contains its whole configuration. */
  attach<A>(name: string, make: () => { value: A; close(): Promise<void> | void }): A {
    return this.#acquire(`${this.#key} ${name}`, make)
  }

  #acquire<A>(key: string, make: () => { value: A; close(): Promise<void> | void }): A {
    const lease = this.#context.resources.acquire(key, make)
    this.#leases.push(lease)
    return lease.value
  }

  #open(): Promise<T> | T {
    const { instance } = this.#options
    if (instance !== undefined && 'store' in instance) return instance.store
    return this.#acquire(this.#key, () => {
      const opening = this.#openKind()
      // A store that did not open has nothing to close; `start` rejects with the cause.
      const close = async () => (await opening.catch(() => undefined))?.close?.()
      return { value: opening, close }
    })
  }

  async #openKind(): Promise<T> {
    const { kind, layer, name, instance } = this.#options
    if (instance !== undefined && 'open' in instance) return instance.open()
    if (kind === 'memory') return layer(new MemoryKeyValueStore({ clock: this.clock }))
    return layer(await (kind === 'lmdb' ? this.#openOnDisk(name, this.#dir) : this.#connect(this.#options)))
  }

  async #openOnDisk(name: string, dir: string): Promise<KeyValueStore & Counters> {
    const { LmdbKeyValueStore } = await import('./lmdb/key-value.js')
    return new LmdbKeyValueStore({ dir, name: `the ${name}`, clock: this.clock })
  }

  async #connect({ whenEvicted }: { readonly whenEvicted?: string } = {}): Promise<KeyValueStore & Counters> {
    const { RedisKeyValueStore } = await import('./redis/key-value.js')
    const { section, settings } = this.#options
    const { redisUrl: url = '', redis, namespace = `svc:${section}`, timeoutMs } = settings
    const keyPrefix = redis?.keyPrefix ?? `${namespace}:`
    const times = { socketTimeoutMs: 2 * timeoutMs, waitMs: Math.ceil(0.8 * timeoutMs) }
    return new RedisKeyValueStore({ ...redis, ...times, url, keyPrefix, whenEvicted, clock: this.clock })
  }

  /** Nothing for a store that has the clock of this machine. */
  #checkClock(): DoctorCheck[] {
    const [ours, theirs] = [this.clock.now(), this.#running?.now?.()]
    if (this.sharedStore === undefined || theirs === undefined) return []
    return checkSkew('Redis', clockSkew({ from: theirs, to: theirs + 1 }, ours, ours))
  }

  async #checkDisk(): Promise<readonly DoctorCheck[]> {
    const [subject, dir] = [`the ${this.name} in`, this.#dir]
    const hint = 'install what is missing, or name another directory'
    const database = await checkUsable(`${subject} ${dir}`, hint, async () => {
      loadLmdb()
      checkHeader(dir)
    })
    return database.severity === 'ok' ? checkDirectory(subject, dir) : [database]
  }

  get #dir(): string {
    const { baseDir, stateDir } = this.#context
    const { settings, section } = this.#options
    return settings.dir === undefined ? resolve(stateDir, section) : resolve(baseDir, settings.dir)
  }
}

const unreachable = 'check its address and credentials, and that it runs'

interface StoreBinding<T extends StoreLifecycle> {
  readonly resource: StoreResource<T>
  readonly own: Token<StoreResource<T>>
  readonly port?: Token<T>
}

/**
 * Binds a plugin's store: its stage resolves the resource, and other code the running store by the port's token. Call it in
 * `register`. A binding of `port` in code stays; the resource already uses that store. The store that all gateways share is that of
 * the outermost stage that has one.
 */
export function bindStore<T extends StoreLifecycle>(
  container: DependencyContainer,
  { resource, own, port }: StoreBinding<T>,
): void {
  const { board, sharedStore } = resource
  bind(container, own, { useValue: resource })
  if (port !== undefined) bindDefault(container, port, { useCurrent: () => resource.running })
  if (board !== undefined) bindDefault(container, services.board, { useValue: board })
  if (sharedStore !== undefined) bindDefault(container, services.sharedStore, { useValue: sharedStore })
}

/** The mistake of a store in memory, at `path`, for one of several processes that serve together. */
export function checkForWorkers(
  adapter: unknown,
  path: ConfigConflict['path'],
  bindings: DependencyContainer,
): ConfigConflict[] {
  const { workers = 1 } = hostOf(bindings)
  if (adapter !== 'memory' || workers < 2) return []
  const message = `"memory" is that of one process, and there are ${workers} workers; use lmdb or redis, or --workers 1`
  return [{ path, message }]
}
