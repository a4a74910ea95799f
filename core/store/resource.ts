// The store of a section: chosen by the policy or bound in code, imported on use, shared across reloads, connected at
// the start, and guarded.

import { join, resolve } from 'node:path'
import { checkSkew, checkUsable, clockSkew, type DoctorCheck } from '../doctor/check.js'
import { canonicalize } from '../json/canonical.js'
import { sha256Hex } from '../json/hash.js'
import { messageOf } from '../json/message.js'
import { hostClock } from '../plugin/host-clock.js'
import type { OpenKeyValueStore } from '../plugin/key-value-store.js'
import type { PluginContext } from '../plugin/plugin.js'
import { services } from '../plugin/services.js'
import type { StageHealth } from '../plugin/stage.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'
import { type Clock, resolveOptional, tokens } from '../plugin/tokens.js'
import { checkDirectory } from './disk/check-directory.js'
import { type GuardOptions, guarded } from './guard.js'
import { checkHeader, loadLmdb } from './lmdb/prerequisites.js'
import type { RedisConnectionOptions } from './redis/connection.js'

/** A section's settings of its store. */
interface StoreSettings {
  /** Directory of a store on disk, relative to the policy's directory. */
  readonly dir?: string | undefined
  readonly redisUrl?: string | undefined
  /** The section's `redis` object. */
  readonly redis?:
    | (Omit<RedisConnectionOptions, 'url'> & { readonly keyPrefix?: string | undefined })
    | undefined
  /** Prefix of the keys, if it is not part of `redis`. */
  readonly namespace?: string | undefined
  /** Timeout of an operation in milliseconds. */
  readonly timeoutMs: number
}

/** The environment for opening a store. */
export interface StoreEnvironment {
  /** The absolute directory of a store on disk. */
  readonly dir: string
  /** The connection of a store in Redis. */
  readonly redis: RedisConnectionOptions
  /** The prefix of its keys. */
  readonly keyPrefix: string
  readonly clock: Clock
}

/** Imports the module of a store and opens it. */
export type StoreKind<T> = (environment: StoreEnvironment) => Promise<T>

export interface StoreOptions<T> extends Omit<GuardOptions<T>, 'timeoutMs'> {
  /** The section: names the directory below the state directory, and the leases. */
  readonly section: string
  /** A name in `kinds`. */
  readonly kind: string
  readonly kinds: Readonly<Record<string, StoreKind<T>>>
  readonly settings: StoreSettings
  /** A store that the user made: it is used in place of every kind, and the user closes it. */
  readonly instance?: { readonly name: string; readonly store: T } | undefined
  /** The gateway starts even if the store is not available. */
  readonly isOptional?: boolean
}

export class StoreResource<T extends StoreLifecycle> {
  readonly clock: Clock
  /** The kind that the policy names, or the name of the store from code. */
  readonly source: string
  #options: StoreOptions<T>
  #context: PluginContext
  #key: string
  #running: T | undefined
  /** Released last to first, so that resources attached to the store close before it. */
  #leases: { release(): Promise<void> }[] = []

  /** @throws {Error} if `kinds` does not have the kind */
  constructor(configured: StoreOptions<T>, context: PluginContext) {
    const options = inMemoryIf(resolveOptional(context.container, services.inMemory) === true, configured)
    const { section, kind, kinds, settings, instance } = options
    if (instance === undefined && !Object.hasOwn(kinds, kind)) {
      const known = Object.keys(kinds).join(', ')
      throw new Error(`${section}.adapter: no adapter named "${kind}" is registered; known are ${known}`)
    }
    this.#options = options
    this.source = configured.instance?.name ?? configured.kind
    this.#context = context
    this.clock = resolveOptional(context.container, tokens.Clock) ?? hostClock
    // The whole configuration of the store, hashed because the URL may contain a password.
    const { redisUrl, redis, namespace, timeoutMs } = settings
    const place =
      redisUrl === undefined ? { dir: this.#dir } : { redisUrl, redis: { ...redis }, namespace, timeoutMs }
    this.#key = `${section}:${instance?.name ?? `${kind} ${sha256Hex(canonicalize(place))}`}`
  }

  get name(): string {
    return this.#options.name
  }

  /** The guarded store. @throws {Error} before the start and after the stop */
  get running(): T {
    if (this.#running === undefined) throw new Error(`the ${this.#options.name} is not open`)
    return this.#running
  }

  /** Rejects when the store cannot be opened or connected. Idempotent. */
  async start(signal: AbortSignal): Promise<void> {
    if (this.#running !== undefined) return
    const { settings, ...options } = this.#options
    const { section, isOptional } = options
    try {
      const store = await this.#open()
      await store.connect?.(signal).catch((error: unknown) => {
        if (isOptional !== true) throw error
        this.#context.warn(`${section}: ${messageOf(error)}; the gateway keeps trying to connect`)
      })
      const { container } = this.#context
      this.#running = guarded(
        store,
        { ...options, timeoutMs: settings.timeoutMs },
        {
          clock: this.clock,
          logger: resolveOptional(container, tokens.Logger),
          meter: resolveOptional(container, tokens.Meter),
        },
      )
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
    const { instance, settings } = this.#options
    if (instance !== undefined || settings.redisUrl === undefined) return undefined
    return async () => {
      const { RedisKeyValueStore } = await import('./redis/key-value.js')
      return new RedisKeyValueStore({ ...this.#redis, keyPrefix: this.#keyPrefix, clock: this.clock })
    }
  }

  /** The store of the board of the gateways that share this one; undefined for a store in memory or bound in code. */
  get board(): OpenKeyValueStore | undefined {
    const { instance, kind } = this.#options
    if (instance !== undefined || kind !== 'lmdb') return this.sharedStore
    return async () => {
      const { LmdbKeyValueStore } = await import('./lmdb/key-value.js')
      return new LmdbKeyValueStore({ dir: join(this.#dir, 'board'), name: 'the board', clock: this.clock })
    }
  }

  /** `down`: calls that need the store are refused now. */
  health(): StageHealth | undefined {
    const store = this.#running
    const reason = store === undefined ? `the ${this.#options.name} is not open` : store.ready?.()
    if (reason !== undefined) return { state: 'down', reason }
    const warning = store?.warning?.()
    return warning === undefined ? undefined : { state: 'warning', reason: warning }
  }

  /** Checks the store for `svc doctor`. A store on disk is not opened, because that makes its files. */
  async doctor(): Promise<readonly DoctorCheck[]> {
    const { name, kind, instance, isOptional } = this.#options
    if (instance !== undefined) {
      return [{ severity: 'ok', message: `the ${name} is ${instance.name}, which is not checked` }]
    }
    if (kind === 'lmdb') return this.#checkDisk()
    const severity = isOptional === true ? 'warning' : 'error'
    try {
      await this.start(new AbortController().signal)
      const problem = this.health()
      if (problem?.state === 'down') return [{ severity, message: problem.reason, hint: unreachable }]
      if (problem !== undefined) return [{ severity: 'warning', message: problem.reason }]
      return [{ severity: 'ok', message: `the ${name} (${kind}) can be used` }, ...(await this.#checkClock())]
    } catch (error) {
      return [{ severity, message: `the ${name}: ${messageOf(error)}` }]
    } finally {
      await this.stop()
    }
  }

  /**
   * Acquires, after the start, a resource that survives reloads together with the store. `name` contains its whole
   * configuration.
   */
  attach<A>(name: string, make: () => { value: A; close(): Promise<void> | void }): A {
    const lease = this.#context.resources.acquire(`${this.#key} ${name}`, make)
    this.#leases.push(lease)
    return lease.value
  }

  #open(): Promise<T> | T {
    const { instance, kinds, kind } = this.#options
    if (instance !== undefined) return instance.store
    const lease = this.#context.resources.acquire(this.#key, () => {
      const opening = kinds[kind]?.({
        dir: this.#dir,
        redis: this.#redis,
        keyPrefix: this.#keyPrefix,
        clock: this.clock,
      })
      if (opening === undefined) throw new Error(`there is no store named "${kind}"`)
      // A store that did not open has nothing to close; `start` rejects with the cause.
      const close = () =>
        opening.then(
          (store) => store.close?.(),
          () => undefined,
        )
      return { value: opening, close }
    })
    this.#leases.push(lease)
    return lease.value
  }

  /** Nothing for a store that has the clock of this machine. */
  async #checkClock(): Promise<readonly DoctorCheck[]> {
    if (this.sharedStore === undefined) return []
    const store = await this.sharedStore()
    try {
      const askedAt = this.clock.now()
      const { now } = await store.get({ name: 'clock' }, [])
      return checkSkew('Redis', clockSkew({ from: now, to: now + 1 }, askedAt, this.clock.now()))
    } finally {
      await store.close?.()
    }
  }

  async #checkDisk(): Promise<readonly DoctorCheck[]> {
    const { name } = this.#options
    const dir = this.#dir
    const hint = 'install what is missing, or name another directory'
    const database = await checkUsable(`the ${name} in ${dir}`, hint, async () => {
      loadLmdb()
      checkHeader(dir)
    })
    return database.severity === 'ok' ? checkDirectory(`the ${name} in`, dir) : [database]
  }

  get #redis(): RedisConnectionOptions {
    const { redisUrl: url = '', redis, timeoutMs } = this.#options.settings
    return { ...redis, url, socketTimeoutMs: 2 * timeoutMs }
  }

  get #keyPrefix(): string {
    const { section, settings } = this.#options
    const { redis, namespace } = settings
    return redis?.keyPrefix ?? (namespace === undefined ? `svc:${section}:` : `${namespace}:`)
  }

  get #dir(): string {
    const { baseDir, stateDir } = this.#context
    const { settings, section } = this.#options
    return settings.dir === undefined ? resolve(stateDir, section) : resolve(baseDir, settings.dir)
  }
}

/** A tool that judges calls keeps what it counts in memory, whatever store the policy has. */
function inMemoryIf<T>(inMemory: boolean, options: StoreOptions<T>): StoreOptions<T> {
  if (!inMemory) return options
  return {
    ...options,
    kind: 'memory',
    instance: undefined,
    settings: { timeoutMs: options.settings.timeoutMs },
  }
}

const unreachable = 'check its address and credentials, and that it runs'
