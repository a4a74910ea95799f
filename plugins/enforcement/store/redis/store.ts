// Escalations in Redis or Valkey, shared by all gateways that use the same server.
import type {
  Clock,
  EntryPage,
  EntryPosition,
  EscalationEntry,
  EscalationStore,
  OpenConditions,
} from '@svc/core'
import { RedisConnection, type RedisConnectionOptions, RedisTime, type Script } from '@svc/core/redis'
import { decodeEntry, encodeEntry } from '../entry.js'
import {
  dueEntries,
  getEntry,
  getInput,
  latestEntry,
  openEntry,
  pageOfEntries,
  removeEntry,
  removeInputOf,
  replaceEntry,
} from './scripts.js'

interface RedisEscalationOptions extends RedisConnectionOptions {
  /** Prefix of every key; `svc:escalations:` by default. */
  readonly keyPrefix?: string | undefined
  /** Without it, the store has no time of its own. */
  readonly clock?: Pick<Clock, 'now' | 'monotonic'> | undefined
}

export class RedisEscalationStore implements EscalationStore {
  /** The clock of the server, so that an approval ends for all gateways at the same time. */
  readonly now?: () => number
  #connection: RedisConnection
  #prefix: string
  #time: RedisTime | undefined

  constructor({ keyPrefix = 'svc:escalations:', clock, ...connection }: RedisEscalationOptions) {
    // One hash tag for all entries: people decide them one by one, so one node is enough.
    this.#prefix = `${keyPrefix}{all}`
    this.#connection = new RedisConnection(connection)
    if (clock === undefined) return
    const time = new RedisTime(this.#connection, clock)
    this.#time = time
    this.now = () => time.now()
  }

  /** Keeps trying to connect after it has rejected. */
  async connect(signal: AbortSignal): Promise<void> {
    await this.#connection.connect(signal)
    // A server that refuses this also refuses the sweep, which reports it, and each escalation.
    await Promise.allSettled([this.#time?.read(this.#prefix)])
  }

  ready(): string | undefined {
    return this.#connection.ready()
  }

  async open(
    entry: EscalationEntry,
    { replaces = '', maxPending, maxInputBytes, now }: OpenConditions,
    input?: string,
  ) {
    const conditions = [replaces, maxPending, now, maxInputBytes]
    const response = await this.#run(openEntry, [...argsOf(entry), ...conditions, input ?? ''])
    if (response === 'opened' || response === 'raced' || response === 'full') return response
    throw new Error('Redis: the response to an opening cannot be read')
  }

  async get(id: string) {
    return entryIn(await this.#run(getEntry, [id]))
  }

  async input(id: string) {
    const response = await this.#run(getInput, [id])
    return typeof response === 'string' ? response : undefined
  }

  async removeInput(id: string) {
    await this.#run(removeInputOf, [id])
  }

  async latest(fingerprint: string) {
    return entryIn(await this.#run(latestEntry, [fingerprint]))
  }

  async replace(entry: EscalationEntry) {
    return (await this.#run(replaceEntry, argsOf(entry))) === 1
  }

  async remove({ id, version }: EscalationEntry) {
    return (await this.#run(removeEntry, [id, version])) === 1
  }

  async due(now: number, limit: number) {
    await this.#time?.read(this.#prefix)
    return entriesIn(await this.#run(dueEntries, [now, limit]))
  }

  async page(
    after: EntryPosition | undefined,
    limit: number,
    { isPending = false, first = 'newest' }: EntryPage = {},
  ) {
    const from = [after?.id ?? '', after?.createdAt ?? '']
    return entriesIn(await this.#run(pageOfEntries, [limit, ...from, isPending ? 'open' : 'age', first]))
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  #run(script: Script, args: readonly (string | number)[]): Promise<unknown> {
    return this.#connection.run(script, [this.#prefix], args)
  }
}

function argsOf(entry: EscalationEntry): (string | number)[] {
  const { id, fingerprint, principal, isPending, createdAt, wakeAt, dueAt, forgetAt, version } = entry
  const text = encodeEntry(entry)
  const times = [createdAt, wakeAt, dueAt, forgetAt]
  return [id, fingerprint, principal, isPending ? '1' : '0', ...times, version, text]
}

function entryIn(response: unknown): EscalationEntry | undefined {
  return typeof response === 'string' ? decodeEntry(response) : undefined
}

function entriesIn(response: unknown): EscalationEntry[] {
  if (!Array.isArray(response)) throw new Error('Redis: the response is not a list of entries')
  return response.flatMap((text) => entryIn(text) ?? [])
}
