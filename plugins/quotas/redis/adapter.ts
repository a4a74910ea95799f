// Counts in Redis or Valkey: all gateways that share a server share its limits.
import type { QuotaAdapter } from '@svc/core'
import { checkDailyLimit } from '../day.js'
import { keyOf } from '../key.js'
import { checkedSize } from '../token-bucket.js'
import { RedisConnection, type RedisConnectionOptions } from './connection.js'
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
    const { count, resetAt } = await this.countDaily(tenant, tool, limit, 1, now)
    return { count, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    const { tokens, resetAt } = await this.takeTokens(tenant, tool, ratePerSec, burst, 1, now)
    return { tokens, resetAt }
  }

  refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    return this.refundDays(tenant, tool, 1, now)
  }

  /** Counts up to `want` calls at once, all of them included in `count`; `taken` is 0 when the limit is reached. */
  async countDaily(tenant: string, tool: string, limit: number, want: number, now?: number) {
    checkDailyLimit(limit)
    const args = [Math.min(limit, NO_LIMIT), now ?? '', want]
    const answer = await this.#connection.run(countDaily, this.#key('count', tenant, tool), args)
    const [count, resetAt, taken] = numbersOf(answer)
    return { count, resetAt, taken }
  }

  /** Takes up to `want` tokens at once; `tokens` are left, and below zero when not one was there. */
  async takeTokens(
    tenant: string,
    tool: string,
    ratePerSec: number,
    burst: number | undefined,
    want: number,
    now?: number,
  ) {
    const args = [ratePerSec, checkedSize(ratePerSec, burst), now ?? '', want]
    const answer = await this.#connection.run(takeTokens, this.#key('bucket', tenant, tool), args)
    const [tokens, resetAt, taken] = numbersOf(String(answer).split(' '))
    return { tokens, resetAt, taken }
  }

  async refundDays(tenant: string, tool: string, calls: number, now?: number): Promise<void> {
    await this.#connection.run(refundDaily, this.#key('count', tenant, tool), [now ?? '', calls])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  /** What is counted for one tenant and tool lies on one node of a cluster. */
  #key(what: 'count' | 'bucket', tenant: string, tool: string): string {
    return `${this.#prefix}{${keyOf(tenant, tool)}}:${what}`
  }
}

function numbersOf(answer: unknown): [number, number, number] {
  const [first, second, third] = Array.isArray(answer) ? answer.map(Number) : []
  if (first === undefined || second === undefined || third === undefined) {
    throw new Error('Redis: an answer is not ours')
  }
  return [first, second, third]
}
