// Keys in Redis or Valkey, shared by all gateways that use the same server.
import type { DedupeClaim, DedupeClaimResult, DedupeStore } from '@svc/core'
import { RedisConnection, type RedisConnectionOptions, type Script } from '@svc/core/redis'
import { claimKey, finish, markSent, release, renew } from './scripts.js'

interface RedisDedupeOptions extends RedisConnectionOptions {
  /** The prefix of every key. */
  readonly namespace: string
  /** Number of replicas that must have the mark of a call before it is sent; 0 waits for none. */
  readonly waitReplicas?: number | undefined
  /** Milliseconds to wait for the replicas. */
  readonly waitMs?: number | undefined
}

export class RedisDedupeStore implements DedupeStore {
  #connection: RedisConnection
  #namespace: string
  #replicas: number
  #waitMs: number
  #evicts: string | undefined

  constructor({ namespace, waitReplicas = 0, waitMs = 800, ...connection }: RedisDedupeOptions) {
    this.#namespace = namespace
    this.#replicas = waitReplicas
    this.#waitMs = waitMs
    this.#connection = new RedisConnection(connection)
  }

  async connect(signal: AbortSignal): Promise<void> {
    await this.#connection.connect(signal)
    const memory = await this.#connection.info('memory')
    const policy = memory.get('maxmemory_policy') ?? 'noeviction'
    this.#evicts = memory.get('maxmemory') !== '0' && policy !== 'noeviction' ? policy : undefined
  }

  warning(): string | undefined {
    if (this.#evicts === undefined) return undefined
    return `Redis may evict keys (maxmemory-policy ${this.#evicts}): a call whose key it has evicted can run again`
  }

  ready(): string | undefined {
    return this.#connection.ready()
  }

  async claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    const { key, fingerprint, owner, leaseMs } = claim
    const keys = [this.#key(key)]
    return resultOf(await this.#connection.run(claimKey, keys, [fingerprint, owner, leaseMs]))
  }

  async markSent(claim: DedupeClaim): Promise<boolean> {
    const { response, replicas } = await this.#connection.runReplicated(
      markSent,
      [this.#key(claim.key)],
      argumentsOf(claim),
      { replicas: this.#replicas, timeoutMs: this.#waitMs },
    )
    if (response !== 1) return false
    if (replicas < this.#replicas) {
      throw new Error(`Redis: ${replicas} of ${this.#replicas} replicas have the mark of the call`)
    }
    return true
  }

  async renew(claim: DedupeClaim): Promise<boolean> {
    return (await this.#run(renew, claim)) === 1
  }

  async release(claim: DedupeClaim): Promise<void> {
    await this.#run(release, claim)
  }

  async complete(claim: DedupeClaim, response: Uint8Array | null): Promise<boolean> {
    const more = response === null ? ['completed'] : ['completed', textOf(response)]
    return (await this.#run(finish, claim, more)) === 1
  }

  async markUnknown(claim: DedupeClaim): Promise<boolean> {
    return (await this.#run(finish, claim, ['unknown'])) === 1
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  #run(script: Script, claim: DedupeClaim, more: readonly string[] = []): Promise<unknown> {
    const args = [...argumentsOf(claim), ...more]
    return this.#connection.run(script, [this.#key(claim.key)], args)
  }

  #key(key: string): string {
    return `${this.#namespace}:{${key}}`
  }
}

function argumentsOf({ fingerprint, owner, leaseMs, ttlMs }: DedupeClaim) {
  return [fingerprint, owner, leaseMs, ttlMs]
}

/** Base64, as replies are read as UTF-8 text. */
function textOf(response: Uint8Array): string {
  return Buffer.from(response.buffer, response.byteOffset, response.byteLength).toString('base64')
}

function resultOf(reply: unknown): DedupeClaimResult {
  const [state, response] = Array.isArray(reply) ? (reply as unknown[]) : []
  switch (String(state)) {
    case 'claimed':
      return { state: 'claimed' }
    case 'in_flight':
      return { state: 'in_flight' }
    case 'unknown':
      return { state: 'unknown' }
    case 'reused':
      return { state: 'reused' }
    case 'completed':
      return {
        state: 'completed',
        response: typeof response === 'string' ? Buffer.from(response, 'base64') : null,
      }
    default:
      throw new Error('Redis: the reply to a claim cannot be read')
  }
}
