// Counts in Redis or Valkey, shared by all gateways that use the same server.
import type { QuotaAdapter } from '@svc/core'
import { RedisConnection, type RedisConnectionOptions } from '@svc/core/redis'
import { checkDailyLimit, checkedSize, keyOf } from '../token-bucket.js'
import { countDaily, refundDaily, takeTokens } from './scripts.js'

interface RedisQuotaOptions extends RedisConnectionOptions {
  /** Prefix of every key; `svc:quotas:` by default. */
  readonly keyPrefix?: string | undefined
}

/** Numbers in Lua are doubles: the largest exact integer stands for no limit. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

export class RedisQuotaAdapter implements QuotaAdapter {
  #connection: RedisConnection
  #prefix: string

  constructor({ keyPrefix = 'svc:quotas:', ...connection }: RedisQuotaOptions) {
    this.#prefix = keyPrefix
    this.#connection = new RedisConnection(connection)
  }

  /** Keeps trying to connect after it has rejected. */
  connect(signal: AbortSignal): Promise<void> {
    return this.#connection.connect(signal)
  }

  ready(): string | undefined {
    return this.#connection.ready()
  }

  incrDaily(tenant: string, tool: string, limit: number, now?: number) {
    return this.#count(tenant, tool, { limit, want: 1, now }, dayOf)
  }

  takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    return this.#take(tenant, tool, { ratePerSec, burst, want: 1, now }, bucketOf)
  }

  refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    return this.refundDays(tenant, tool, 1, now)
  }

  /** Counts up to `want` calls, all included in `count`; `taken` is 0 if the limit is reached. */
  countDaily(tenant: string, tool: string, limit: number, want: number) {
    return this.#count(tenant, tool, { limit, want }, daysOf)
  }

  /** Takes up to `want` tokens; `tokens` are left, below zero if there were none. */
  takeTokens(tenant: string, tool: string, ratePerSec: number, burst: number | undefined, want: number) {
    return this.#take(tenant, tool, { ratePerSec, burst, want }, bucketsOf)
  }

  async refundDays(tenant: string, tool: string, calls: number, now?: number): Promise<void> {
    await this.#connection.run(refundDaily, [this.#key('count', tenant, tool)], [now ?? '', calls])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  #count<T>(tenant: string, tool: string, { limit, want, now }: CountRequest, read: Reading<T>): Promise<T> {
    return rejecting(() => {
      checkDailyLimit(limit)
      const args = [Math.min(limit, NO_LIMIT), now ?? '', want]
      return this.#connection.run(countDaily, [this.#key('count', tenant, tool)], args, read)
    })
  }

  #take<T>(tenant: string, tool: string, take: Take, read: Reading<T>): Promise<T> {
    const { ratePerSec, burst, want, now } = take
    return rejecting(() => {
      const args = [ratePerSec, checkedSize(ratePerSec, burst), now ?? '', want]
      return this.#connection.run(takeTokens, [this.#key('bucket', tenant, tool)], args, read)
    })
  }

  /** The hash tag keeps the keys of one tenant and tool on one node of a cluster. */
  #key(what: 'count' | 'bucket', tenant: string, tool: string): string {
    return `${this.#prefix}{${keyOf(tenant, tool)}}:${what}`
  }
}

interface CountRequest {
  readonly limit: number
  readonly want: number
  readonly now?: number | undefined
}

interface Take {
  readonly ratePerSec: number
  readonly burst: number | undefined
  readonly want: number
  readonly now?: number | undefined
}

type Reading<T> = (response: unknown) => T

/** Turns a throw into a rejection, as an async function does, without its extra promise. */
function rejecting<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return ask()
  } catch (error) {
    return Promise.reject(error)
  }
}

function daysOf(response: unknown) {
  const [count, resetAt, taken] = Array.isArray(response) ? (response as unknown[]) : []
  if (typeof count !== 'number' || typeof resetAt !== 'number' || typeof taken !== 'number') {
    throw new Error('Redis: the response to a count cannot be read')
  }
  return { count, resetAt, taken }
}

function dayOf(response: unknown) {
  const { count, resetAt } = daysOf(response)
  return { count, resetAt }
}

/** Sent as text, as Redis truncates the fractions of numbers. */
function bucketsOf(response: unknown) {
  const [tokens, resetAt, taken] = String(response).split(' ').map(Number)
  if (tokens === undefined || resetAt === undefined || taken === undefined) {
    throw new Error('Redis: the response to a take cannot be read')
  }
  return { tokens, resetAt, taken }
}

function bucketOf(response: unknown) {
  const { tokens, resetAt } = bucketsOf(response)
  return { tokens, resetAt }
}
