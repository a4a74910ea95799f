// Counts in Redis or Valkey: all gateways that share a server share its limits.
import type { QuotaAdapter } from '@svc/core'
import { RedisConnection, type RedisConnectionOptions } from '@svc/core/redis'
import { checkDailyLimit } from '../day.js'
import { keyOf } from '../key.js'
import { checkedSize } from '../token-bucket.js'
import { countDaily, refundDaily, takeTokens } from './scripts.js'

export interface RedisQuotaOptions extends RedisConnectionOptions {
  /** Before every key; `svc:quotas:` where not given. */
  readonly keyPrefix?: string | undefined
}

/** A Redis number is a double: this is as good as no limit, and one that Lua can read. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

export class RedisQuotaAdapter implements QuotaAdapter {
  #connection: RedisConnection
  #prefix: string

  constructor({ keyPrefix = 'svc:quotas:', ...connection }: RedisQuotaOptions) {
    this.#prefix = keyPrefix
    this.#connection = new RedisConnection(connection)
  }

  /** Resolves when it can count; rejects when there is no connection in time, and goes on trying. */
  open(signal: AbortSignal): Promise<void> {
    return this.#connection.open(signal)
  }

  ready(): string | undefined {
    return this.#connection.ready()
  }

  async incrDaily(tenant: string, tool: string, limit: number, now?: number) {
    const [count, resetAt] = countsOf(await this.#count(tenant, tool, limit, 1, now))
    return { count, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    const [tokens, resetAt] = tokensOf(await this.#take(tenant, tool, ratePerSec, burst, 1, now))
    return { tokens, resetAt }
  }

  refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    return this.refundDays(tenant, tool, 1, now)
  }

  /** Counts up to `want` calls at once, all of them included in `count`; `taken` is 0 when the limit is reached. */
  async countDaily(tenant: string, tool: string, limit: number, want: number) {
    const [count, resetAt, taken] = countsOf(await this.#count(tenant, tool, limit, want))
    return { count, resetAt, taken }
  }

  /** Takes up to `want` tokens at once; `tokens` are left, and below zero when not one was there. */
  async takeTokens(
    tenant: string,
    tool: string,
    ratePerSec: number,
    burst: number | undefined,
    want: number,
  ) {
    const [tokens, resetAt, taken] = tokensOf(await this.#take(tenant, tool, ratePerSec, burst, want))
    return { tokens, resetAt, taken }
  }

  async refundDays(tenant: string, tool: string, calls: number, now?: number): Promise<void> {
    await this.#connection.run(refundDaily, [this.#key('count', tenant, tool)], [now ?? '', calls])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  #count(tenant: string, tool: string, limit: number, want: number, now?: number): Promise<unknown> {
    checkDailyLimit(limit)
    const args = [Math.min(limit, NO_LIMIT), now ?? '', want]
    return this.#connection.run(countDaily, [this.#key('count', tenant, tool)], args)
  }

  #take(
    tenant: string,
    tool: string,
    ratePerSec: number,
    burst: number | undefined,
    want: number,
    now?: number,
  ): Promise<unknown> {
    const args = [ratePerSec, checkedSize(ratePerSec, burst), now ?? '', want]
    return this.#connection.run(takeTokens, [this.#key('bucket', tenant, tool)], args)
  }

  /** What is counted for one tenant and tool lies on one node of a cluster. */
  #key(what: 'count' | 'bucket', tenant: string, tool: string): string {
    return `${this.#prefix}{${keyOf(tenant, tool)}}:${what}`
  }
}

type Numbers = readonly [level: number, resetAt: number, taken: number]

function countsOf(answer: unknown): Numbers {
  const [count, resetAt, taken] = Array.isArray(answer) ? (answer as unknown[]) : []
  if (typeof count !== 'number' || typeof resetAt !== 'number' || typeof taken !== 'number') {
    throw new Error('Redis: the answer to a count is not ours')
  }
  return [count, resetAt, taken]
}

/** Tokens have fractions, which Redis would cut off a number: they come as text. */
function tokensOf(answer: unknown): Numbers {
  const [tokens, resetAt, taken] = String(answer).split(' ').map(Number)
  if (tokens === undefined || resetAt === undefined || taken === undefined) {
    throw new Error('Redis: the answer to a take is not ours')
  }
  return [tokens, resetAt, taken]
}
