// Counts in Redis or Valkey, shared by all gateways that use the same server.
import type { CountedLimit, LimitUse, QuotaAdapter } from '@svc/core'
import { RedisConnection, type RedisConnectionOptions } from '@svc/core/redis'
import { countOneByOne, only } from '../count-one-by-one.js'
import { bucketSize, checkLimit, keyOf } from '../token-bucket.js'
import { countLimits, refundDaily } from './scripts.js'

interface RedisQuotaOptions extends RedisConnectionOptions {
  /** Prefix of every key; `svc:quotas:` by default. */
  readonly keyPrefix?: string | undefined
}

/** Numbers in Lua are doubles: the largest exact integer stands for no limit. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

export class RedisQuotaAdapter implements QuotaAdapter {
  #connection: RedisConnection
  #prefix: string
  #isCluster: boolean

  constructor({ keyPrefix = 'svc:quotas:', ...connection }: RedisQuotaOptions) {
    this.#prefix = keyPrefix
    this.#isCluster = connection.cluster === true
    this.#connection = new RedisConnection(connection)
  }

  /** Keeps trying to connect after it has rejected. */
  connect(signal: AbortSignal): Promise<void> {
    return this.#connection.connect(signal)
  }

  ready(): string | undefined {
    return this.#connection.ready()
  }

  async incrDaily(tenant: string, tool: string, callsPerDay: number, now?: number) {
    const { value, resetAt } = await this.count(tenant, { unit: 'day', tool, callsPerDay }, 1, now)
    return { count: value, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    const { value, resetAt } = await this.count(tenant, { unit: 'rate', tool, ratePerSec, burst }, 1, now)
    return { tokens: value, resetAt }
  }

  /** One script, if the keys of all limits are on one node. */
  async countCall(
    tenant: string,
    limits: readonly CountedLimit[],
    now?: number,
  ): Promise<readonly LimitUse[]> {
    const [first] = limits
    if (this.#isCluster && limits.some(({ tool }) => tool !== first?.tool))
      return countOneByOne(this, tenant, limits, now)
    return this.#count(tenant, limits, 1, now)
  }

  refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    return this.refundDays(tenant, tool, 1, now)
  }

  /** Counts up to `want` calls, all included in `value`; `taken` is 0 if the limit refuses. */
  async count(tenant: string, limit: CountedLimit, want: number, now?: number): Promise<Taken> {
    return only(await this.#count(tenant, [limit], want, now))
  }

  async refundDays(tenant: string, tool: string, calls: number, now?: number): Promise<void> {
    await this.#connection.run(refundDaily, [this.#key('count', tenant, tool)], [now ?? '', calls])
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  async #count(
    tenant: string,
    limits: readonly CountedLimit[],
    want: number,
    now: number | undefined,
  ): Promise<Taken[]> {
    const keys: string[] = []
    const args: (string | number)[] = [now ?? '', want]
    for (const limit of limits) {
      checkLimit(limit)
      if (limit.unit === 'rate') {
        keys.push(this.#key('bucket', tenant, limit.tool))
        args.push(limit.ratePerSec, bucketSize(limit.ratePerSec, limit.burst))
      } else {
        keys.push(this.#key('count', tenant, limit.tool))
        args.push(Math.min(limit.callsPerDay, NO_LIMIT), '')
      }
    }
    return this.#connection.run(countLimits, keys, args, usesIn)
  }

  /** The hash tag keeps the keys of one tenant and tool on one node of a cluster. */
  #key(what: 'count' | 'bucket', tenant: string, tool: string): string {
    return `${this.#prefix}{${keyOf(tenant, tool)}}:${what}`
  }
}

interface Taken {
  readonly value: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  readonly taken: number
}

function usesIn(response: unknown): Taken[] {
  const numbers = String(response).split(' ').map(Number)
  const uses: Taken[] = []
  for (let i = 0; i < numbers.length; i += 3) {
    const [value, resetAt, taken] = [numbers[i], numbers[i + 1], numbers[i + 2]]
    if (value === undefined || resetAt === undefined || taken === undefined || Number.isNaN(value))
      throw new Error('Redis: the response to a count cannot be read')
    uses.push({ value, resetAt, taken })
  }
  return uses
}
