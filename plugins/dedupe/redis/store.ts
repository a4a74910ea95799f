// Keys in Redis or Valkey: all gateways that share a server share them.
import type { DedupeClaim, DedupeStanding, DedupeStore } from '@svc/core'
import { RedisConnection, type RedisConnectionOptions, type Script } from '@svc/core/redis'
import { claim, finish, markSent, release, renew } from './scripts.js'

export interface RedisDedupeOptions extends RedisConnectionOptions {
  /** Before every key. */
  readonly namespace: string
  /** Replicas that must have the mark of a call before it is sent; 0 does not wait for any. */
  readonly waitReplicas?: number | undefined
  /** Milliseconds to wait for them. */
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

  async open(signal: AbortSignal): Promise<void> {
    await this.#connection.open(signal)
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

  async claim(attempt: DedupeClaim): Promise<DedupeStanding> {
    const { key, fingerprint, owner, leaseMs } = attempt
    const keys = [this.#key(key)]
    return standingIn(await this.#connection.run(claim, keys, [fingerprint, owner, leaseMs]))
  }

  async markSent(attempt: DedupeClaim): Promise<boolean> {
    const { answer, replicas } = await this.#connection.runReplicated(
      markSent,
      [this.#key(attempt.key)],
      argumentsOf(attempt),
      { replicas: this.#replicas, timeoutMs: this.#waitMs },
    )
    if (answer !== 1) return false
    if (replicas < this.#replicas) {
      throw new Error(`Redis: ${replicas} of ${this.#replicas} replicas have the mark of the call`)
    }
    return true
  }

  async renew(attempt: DedupeClaim): Promise<boolean> {
    return (await this.#run(renew, attempt)) === 1
  }

  async release(attempt: DedupeClaim): Promise<void> {
    await this.#run(release, attempt)
  }

  async complete(attempt: DedupeClaim, answer: Uint8Array | null): Promise<boolean> {
    const more = answer === null ? ['answered'] : ['answered', textOf(answer)]
    return (await this.#run(finish, attempt, more)) === 1
  }

  async lose(attempt: DedupeClaim): Promise<boolean> {
    return (await this.#run(finish, attempt, ['unknown'])) === 1
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  #run(script: Script, attempt: DedupeClaim, more: readonly string[] = []): Promise<unknown> {
    const args = [...argumentsOf(attempt), ...more]
    return this.#connection.run(script, [this.#key(attempt.key)], args)
  }

  #key(key: string): string {
    return `${this.#namespace}:{${key}}`
  }
}

function argumentsOf({ fingerprint, owner, leaseMs, ttlMs }: DedupeClaim) {
  return [fingerprint, owner, leaseMs, ttlMs]
}

/** Replies are read as text, which bytes of any kind are not. */
function textOf(answer: Uint8Array): string {
  return Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength).toString('base64')
}

function standingIn(reply: unknown): DedupeStanding {
  const [state, answer] = Array.isArray(reply) ? (reply as unknown[]) : []
  switch (String(state)) {
    case 'claimed':
      return { state: 'claimed' }
    case 'in_flight':
      return { state: 'in_flight' }
    case 'unknown':
      return { state: 'unknown' }
    case 'reused':
      return { state: 'reused' }
    case 'answered':
      return { state: 'answered', answer: typeof answer === 'string' ? Buffer.from(answer, 'base64') : null }
    default:
      throw new Error('Redis: the answer to a claim is not ours')
  }
}
