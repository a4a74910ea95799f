// Counts a call against the limits that entitlements gave it, and refuses it when one is used up. It runs after dedupe,
// so that a replay is not counted.
import {
  type Call,
  type Denied,
  denied,
  failed,
  identity,
  type Limit,
  limits,
  type MaybePromise,
  type Next,
  type Outcome,
  type QuotaAdapter,
  type Stage,
  services,
  type Token,
} from '@svc/core'
import type { StoreResource } from '@svc/core/store'
import type { QuotasConfig } from './config.js'
import { DailyHold } from './daily-hold.js'
import { LimitCounter } from './limit-counter.js'
import { MemoryQuotaAdapter } from './store/memory/store.js'
import { bucketSize } from './store/token-bucket.js'
import { secondsUntil, Usage } from './usage.js'

export class QuotasStage implements Stage {
  #store: StoreResource<QuotaAdapter>
  #failureMode: QuotasConfig['failure_mode']
  #tenant: string
  #counter: LimitCounter | undefined

  /** `tenant` is counted for callers that no stage identifies. */
  constructor(store: StoreResource<QuotaAdapter>, failureMode: QuotasConfig['failure_mode'], tenant: string) {
    this.#store = store
    this.#failureMode = failureMode
    this.#tenant = tenant
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#store.start(signal)
    this.#counter ??= new LimitCounter(
      this.#store.running,
      this.#failureMode,
      this.#failureMode === 'local' ? this.#localCounts() : undefined,
    )
  }

  async stop(): Promise<void> {
    this.#counter = undefined
    await this.#store.stop()
  }

  /** In the other failure modes calls are served without the store. */
  ready(): string | undefined {
    return this.#failureMode === 'closed' ? this.#store.ready() : undefined
  }

  offer<T>(service: Token<T>): T | undefined
  offer(service: symbol): unknown {
    return service === services.sharedStore ? this.#store.sharedStore : undefined
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
        say(
          `${describeLimit(limit)}, counted by ${this.#store.source} as ${this.#tenantOf(call)} ${limit.key}`,
        )
      }
      say('nothing is counted for an explanation')
    }
    return next()
  }

  async #count(call: Call, apply: readonly Limit[], next: Next): Promise<Outcome> {
    const { kind } = await call.request()
    if (kind === 'protocol') return next()
    const counter = this.#running()
    const usage = new Usage()
    let outcome: Outcome | undefined
    try {
      outcome = await this.#take(call, counter, apply, usage)
    } catch (cause) {
      outcome = failed('STORE_UNAVAILABLE', 'The quota store cannot be asked, so the call was not sent.', {
        cause,
        headers: { 'retry-after': '1' },
      })
    }
    outcome ??= await next()
    const headers = usage.headers(this.#store.clock.now(), outcome.sent)
    // One spread: V8 builds an object from two spreads as a dictionary, at ten times the cost.
    return { ...outcome, headers: Object.assign({}, outcome.headers, headers) }
  }

  /** Takes from every bucket, then counts every daily limit; the first that is used up refuses the call. */
  async #take(
    call: Call,
    counter: LimitCounter,
    apply: readonly Limit[],
    usage: Usage,
  ): Promise<Denied | undefined> {
    const tenant = this.#tenantOf(call)
    for (const limit of apply) {
      const { key, ratePerSec, burst } = limit
      if (ratePerSec === undefined) continue
      const answer = await counter.takeToken(tenant, key, ratePerSec, burst)
      if (answer === undefined) continue
      usage.addBucket(limit, ratePerSec, bucketSize(ratePerSec, burst), answer)
      if (answer.tokens < 0) return this.#refuse('RATE_LIMITED', limit, answer.resetAt)
    }
    let hold: DailyHold | undefined
    for (const limit of apply) {
      const { key, callsPerDay } = limit
      if (callsPerDay === undefined) continue
      const answer = await counter.incrDaily(tenant, key, callsPerDay)
      if (answer === undefined) continue
      usage.addDay(limit, callsPerDay, answer, answer.refund !== undefined)
      if (answer.count > callsPerDay) return this.#refuse('QUOTA_EXCEEDED', limit, answer.resetAt)
      if (answer.refund === undefined) continue
      // The pipeline releases it when nothing is sent, also where the next limit refuses.
      if (hold === undefined) {
        hold = new DailyHold()
        call.hold(hold)
      }
      hold.add(answer.refund)
    }
    return undefined
  }

  #refuse(code: 'RATE_LIMITED' | 'QUOTA_EXCEEDED', limit: Limit, resetAt: number): Denied {
    const seconds = Math.max(1, secondsUntil(resetAt, this.#store.clock.now()))
    const { level, ratePerSec, burst, callsPerDay } = limit
    const usedUp =
      code === 'RATE_LIMITED'
        ? `The rate is used up: ${describeLimit({ level, ratePerSec, burst })}`
        : `Today's calls are used up: ${describeLimit({ level, callsPerDay })}`
    return denied(code, `${usedUp}. Try again in ${seconds} s.`, {
      denial: { level, type: 'quotas' },
      headers: { 'retry-after': String(seconds) },
    })
  }

  #running(): LimitCounter {
    if (this.#counter === undefined) throw new Error('the quotas stage was not started')
    return this.#counter
  }

  #localCounts(): MemoryQuotaAdapter {
    const { clock } = this.#store
    return this.#store.attach('local counts', () => ({
      value: new MemoryQuotaAdapter({ now: () => clock.now() }),
      close: () => undefined,
    }))
  }

  #tenantOf(call: Call): string {
    return call.get(identity)?.tenant ?? this.#tenant
  }
}

/** A limit, or the part of it that is used up. */
type LimitPart = Pick<Limit, 'level'> & { [K in keyof Limit]?: Limit[K] | undefined }

function describeLimit({ level, callsPerDay, ratePerSec, burst }: LimitPart): string {
  const parts: string[] = []
  if (ratePerSec !== undefined) {
    parts.push(`${ratePerSec} calls per second, ${bucketSize(ratePerSec, burst)} at once`)
  }
  if (callsPerDay !== undefined) parts.push(`${callsPerDay} calls per day`)
  return `limit of the ${level}: ${parts.join('; ')}`
}
