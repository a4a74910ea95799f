// Counts a call against the limits that entitlements gave it, and refuses it when one is used up. Stands after the
// duplicate check, so that a replay costs nothing.
import {
  type Call,
  type Clock,
  type Denied,
  denied,
  failed,
  identity,
  type Lease,
  type Limit,
  limits,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
} from '@svc/core'
import { DailyHold } from './daily-hold.js'
import type { GuardedStore } from './guarded-store.js'
import { bucketSize } from './token-bucket.js'
import { secondsUntil, Usage } from './usage.js'

/** A store that is known but not yet open. */
export interface StoreSource {
  /** As `explain` tells it. */
  readonly name: string
  /** `signal` fires when start-up is given up. */
  open(signal: AbortSignal): Promise<Lease<GuardedStore>>
}

export class QuotasStage implements Stage {
  #source: StoreSource
  #tenant: string
  #clock: Clock
  #lease: Lease<GuardedStore> | undefined

  /** `tenant` is the one counted for where no stage tells who is calling. */
  constructor(source: StoreSource, tenant: string, clock: Clock) {
    this.#source = source
    this.#tenant = tenant
    this.#clock = clock
  }

  async start(signal: AbortSignal): Promise<void> {
    this.#lease ??= await this.#source.open(signal)
  }

  async stop(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  ready(): string | undefined {
    return this.#lease?.value.ready()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const apply = call.get(limits)
    return apply === undefined || apply.length === 0 ? next() : this.#count(call, apply, next)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const apply = call.get(limits) ?? []
    const { kind } = await call.request()
    if (kind === 'protocol') say('protocol requests are not counted')
    else if (apply.length === 0) say('no limit applies')
    else {
      for (const limit of apply) {
        say(`${inWords(limit)}, counted by ${this.#source.name} as ${this.#tenantOf(call)} ${limit.key}`)
      }
      say('nothing is counted for an explanation')
    }
    return next()
  }

  async #count(call: Call, apply: readonly Limit[], next: Next): Promise<Outcome> {
    const { kind } = await call.request()
    if (kind === 'protocol') return next()
    const store = this.#store()
    const usage = new Usage()
    let outcome: Outcome | undefined
    try {
      outcome = await this.#take(call, store, apply, usage)
    } catch (cause) {
      outcome = failed('STORE_UNAVAILABLE', 'The quota store cannot be asked, so the call was not sent.', {
        cause,
        headers: { 'retry-after': '1' },
      })
    }
    outcome ??= await next()
    const headers = usage.headers(this.#clock.now(), outcome.sent)
    // Not two spreads: an object of two is a hash table to the engine, at ten times the price.
    return { ...outcome, headers: Object.assign({}, outcome.headers, headers) }
  }

  /** Asks every bucket, then every daily count; what refuses ends it. */
  async #take(
    call: Call,
    store: GuardedStore,
    apply: readonly Limit[],
    usage: Usage,
  ): Promise<Denied | undefined> {
    const tenant = this.#tenantOf(call)
    for (const limit of apply) {
      const { key, ratePerSec, burst } = limit
      if (ratePerSec === undefined) continue
      const answer = await store.takeToken(tenant, key, ratePerSec, burst)
      if (answer === undefined) continue
      usage.addBucket(limit, ratePerSec, bucketSize(ratePerSec, burst), answer)
      if (answer.tokens < 0) return this.#refuse('RATE_LIMITED', limit, answer.resetAt)
    }
    let hold: DailyHold | undefined
    for (const limit of apply) {
      const { key, callsPerDay } = limit
      if (callsPerDay === undefined) continue
      const answer = await store.incrDaily(tenant, key, callsPerDay)
      if (answer === undefined) continue
      usage.addDay(limit, callsPerDay, answer, answer.refund !== undefined)
      if (answer.count > callsPerDay) return this.#refuse('QUOTA_EXCEEDED', limit, answer.resetAt)
      if (answer.refund === undefined) continue
      // The pipeline releases it whenever nothing is sent, a refusal by the next limit included.
      if (hold === undefined) {
        hold = new DailyHold()
        call.hold(hold)
      }
      hold.add(answer.refund)
    }
    return undefined
  }

  #refuse(code: 'RATE_LIMITED' | 'QUOTA_EXCEEDED', limit: Limit, resetAt: number): Denied {
    const seconds = Math.max(1, secondsUntil(resetAt, this.#clock.now()))
    const { level, ratePerSec, burst, callsPerDay } = limit
    const usedUp =
      code === 'RATE_LIMITED'
        ? `The rate is used up: ${inWords({ level, ratePerSec, burst })}`
        : `Today's calls are used up: ${inWords({ level, callsPerDay })}`
    return denied(code, `${usedUp}. Try again in ${seconds} s.`, {
      denial: { level, type: 'quotas' },
      headers: { 'retry-after': String(seconds) },
    })
  }

  #store(): GuardedStore {
    if (this.#lease === undefined) throw new Error('the quotas stage was not started')
    return this.#lease.value
  }

  #tenantOf(call: Call): string {
    return call.get(identity)?.tenant ?? this.#tenant
  }
}

interface Told {
  readonly level: string
  readonly callsPerDay?: number | undefined
  readonly ratePerSec?: number | undefined
  readonly burst?: number | undefined
}

function inWords({ level, callsPerDay, ratePerSec, burst }: Told): string {
  const parts: string[] = []
  if (ratePerSec !== undefined) {
    parts.push(`${ratePerSec} calls per second, ${bucketSize(ratePerSec, burst)} at once`)
  }
  if (callsPerDay !== undefined) parts.push(`${callsPerDay} calls per day`)
  return `limit of the ${level}: ${parts.join('; ')}`
}
