// Counts a call against the limits that entitlements gave it, and refuses it when one is used up. It runs after dedupe,
// so that a replay is not counted.
import {
  after,
  type Call,
  type DoctorCheck,
  failed,
  identity,
  isPending,
  judgedOnly,
  type Limit,
  limits,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
  type StageHealth,
} from '@svc/core'
import { MemoryKeyValueStore, type StoreResource } from '@svc/core/store'
import { CallCount, describeLimit, limitPartsOf } from './call-count.js'
import type { QuotasConfig } from './config.js'
import { LimitCounter, type LimitsInUse } from './limit-counter.js'
import { QuotaCounters, type QuotaStore } from './store/quota-store.js'

const DAY_MS = 86_400_000
/** How often the store is asked whether it has lost counts, in milliseconds. */
const WATCH_MS = 300_000

export class QuotasStage implements Stage {
  readonly effects = 'stores'
  #store: StoreResource<QuotaStore>
  #failureMode: QuotasConfig['failure_mode']
  #tenant: string
  #inUse: LimitsInUse
  #counter: LimitCounter | undefined
  #watching: NodeJS.Timeout | undefined
  /** When the store lost its counts, in milliseconds since the epoch. */
  #lostAt = Number.NEGATIVE_INFINITY

  /** Callers without an identity are counted under `tenant`. */
  constructor(
    store: StoreResource<QuotaStore>,
    failureMode: QuotasConfig['failure_mode'],
    tenant: string,
    inUse: LimitsInUse,
  ) {
    this.#inUse = inUse
    this.#store = store
    this.#failureMode = failureMode
    this.#tenant = tenant
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#store.start(signal)
    this.#counter ??= new LimitCounter({
      store: this.#store.running,
      failureMode: this.#failureMode,
      inUse: this.#inUse,
      local: this.#failureMode === 'local' ? this.#localCounts() : undefined,
      clock: this.#store.clock,
    })
    this.#watching ??= setInterval(() => void this.#watch(), WATCH_MS).unref()
    await this.#watch()
  }

  async stop(): Promise<void> {
    clearInterval(this.#watching)
    this.#watching = undefined
    this.#counter = undefined
    await this.#store.stop()
  }

  /** In the other failure modes calls are served without the store. */
  health(): StageHealth | undefined {
    const health = this.#store.health() ?? this.#loss()
    return health && this.#failureMode !== 'closed' ? { ...health, state: 'warning' } : health
  }

  /** Until the end of the day whose counts are too low. */
  #loss(): StageHealth | undefined {
    const [lost, now] = [this.#lostAt, this.#store.clock.now()].map((at) => Math.floor(at / DAY_MS))
    if (lost !== now) return undefined
    const at = new Date(this.#lostAt).toISOString()
    const reason = `the quota store lost its counts at ${at}: calls of this day before that are not counted`
    return { state: 'warning', reason }
  }

  async #watch(): Promise<void> {
    if (this.#counter === undefined) return
    // The guard of the store has logged the failure, and the next reading finds the loss.
    const lostAt = await this.#store.running.lostAt?.().catch(() => undefined)
    if (lostAt !== undefined) this.#lostAt = lostAt
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#store.doctor()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const apply = call.get(limits)
    if (call.isNoted) this.#explain(call, apply ?? [])
    if (apply === undefined || apply.length === 0) return next()
    return after(call.request(), ({ kind }) =>
      kind === 'protocol' ? next() : this.#count(call, apply, next),
    )
  }

  #explain(call: Call, apply: readonly Limit[]): void {
    if (apply.length === 0) call.note('no limit applies')
    for (const limit of apply)
      call.note(
        `${describeLimit(limit)}, counted by ${this.#store.source} as ${this.#tenantOf(call)} ${limit.key}`,
      )
    if (apply.length > 0 && call.get(judgedOnly)) call.note('how much of it is used is not known here')
  }

  #count(call: Call, apply: readonly Limit[], next: Next): MaybePromise<Outcome> {
    if (this.#counter === undefined) throw new Error('the quotas stage was not started')
    const count = new CallCount(call, this.#tenantOf(call), this.#store.clock)
    let refused: MaybePromise<Outcome | undefined>
    try {
      refused = count.take(this.#counter, limitPartsOf(apply))
    } catch (cause) {
      refused = storeUnavailable(cause)
    }
    const passed = isPending(refused)
      ? refused.catch(storeUnavailable).then((refusal) => refusal ?? next())
      : (refused ?? next())
    return after(passed, (outcome) => count.reported(outcome))
  }

  #localCounts(): QuotaStore {
    const { clock } = this.#store
    return this.#store.attach('local counts', () => ({
      value: new QuotaCounters(new MemoryKeyValueStore({ clock })),
      close: () => undefined,
    }))
  }

  #tenantOf(call: Call): string {
    return call.get(identity)?.tenant ?? this.#tenant
  }
}

function storeUnavailable(cause: unknown): Outcome {
  return failed('STORE_UNAVAILABLE', 'The quota store cannot be asked, so the call was not sent.', {
    cause,
    headers: { 'retry-after': '1' },
  })
}
