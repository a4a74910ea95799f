// Validates values by the schemas of servers in one thread, one after the other. Each step has a time limit; past it the
// thread is ended, and another one serves the next value. Users of the thread take turns, and one who needs much of its time
// waits until it is free of him: his values are not checked for a minute. A schema runs first with an empty object; what ends
// the thread runs again alone in a new one, and is charged only if it ends that too: a schema to its server, a value to its user.
import type { Worker } from 'node:worker_threads'
import { type Clock, withinLimit } from '@svc/core'
import { type JsonObject, type JsonValue, messageOf, sha256Hex, stringifyJson } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { startWorker, Thread } from '@svc/core/thread'
import { schemaProblem } from './bounds.js'
import type { Mismatch, SchemaMethods } from './schema-worker.js'

const module = new URL('./schema-worker.js', import.meta.url)
/** Limits of time, in milliseconds. A busy machine may need most of them for little. */
const startMs = 30_000
const compileMs = 3_000
const validateMs = 1_000
/** Megabytes for the schemas and one value. */
const maxMemoryMb = 192
/** Schemas that cannot be used, whose reason is remembered. */
const maxRefused = 2_000
/** Milliseconds of a step that are not counted. */
const freeMs = 20
/** Milliseconds of the thread beyond those for one user, in a minute. */
const maxSpentMs = 1_000
const minuteMs = 60_000
const maxUsers = 10_000

/** A schema with its digest. The text of a definition that was pinned does not change. */
export interface DigestedSchema {
  readonly digest: string
  readonly schema: JsonObject
}

export function digested(schema: JsonObject): DigestedSchema {
  return { digest: sha256Hex(stringifyJson(schema)), schema }
}

/** `unchecked`: the schema or the value is outside the limits, the schema is none, or the user's values took too long. */
export type SchemaResult =
  | { readonly kind: 'fits' }
  | ({ readonly kind: 'mismatch' } & Mismatch)
  | { readonly kind: 'unchecked'; readonly reason: string }

const fits: SchemaResult = { kind: 'fits' }

/** Who causes the work of a check. */
export interface SchemaUser {
  readonly caller: string
  /** Whose schema it is. */
  readonly server: string
}

/** A step after which there is no thread: it died, or was ended because the step took too long. */
class ThreadEnded {
  constructor(
    readonly by: 'death' | 'limit',
    readonly reason: string,
  ) {}
}

/** The end of a thread, and whether the schema alone was the cause. */
interface EndedBy {
  readonly kind: 'ended'
  readonly ended: ThreadEnded
  readonly isSchema: boolean
}

interface Spent {
  readonly until: number
  ms: number
}

export class SchemaThread {
  #clock: Pick<Clock, 'monotonic'>
  #startWorker: typeof startSchemaWorker
  #thread: Thread<SchemaMethods> | undefined
  /** The waiting checks by user; the first user is the next. */
  #waiting = new Map<string, (() => Promise<void>)[]>()
  #running: Promise<void> | undefined
  #spent = new BoundedMap<string, Spent>(maxUsers)
  #unusable = new BoundedMap<string, string>(maxRefused)
  /** Schemas that have run with an empty object. */
  #tried = new BoundedMap<string, true>(maxRefused)

  constructor(clock: Pick<Clock, 'monotonic'>, startValidator = startSchemaWorker) {
    this.#clock = clock
    this.#startWorker = startValidator
  }

  /** Never rejects for what a schema or a value is. */
  check(schema: DigestedSchema, value: JsonValue, user: SchemaUser): Promise<SchemaResult> {
    const known = this.#unusable.get(schema.digest)
    if (known !== undefined) return Promise.resolve({ kind: 'unchecked', reason: known })
    const key = JSON.stringify([user.caller, user.server])
    return new Promise((resolve, reject) => {
      const work = (): Promise<void> => this.#check(schema, value, key, user.server).then(resolve, reject)
      const waiting = this.#waiting.get(key)
      if (waiting === undefined) this.#waiting.set(key, [work])
      else waiting.push(work)
      this.#running ??= this.#runAll()
    })
  }

  async #runAll(): Promise<void> {
    for (const [user, [work, ...others]] of this.#waiting) {
      this.#waiting.delete(user)
      // Behind the other users; the iteration comes to it again.
      if (others.length > 0) this.#waiting.set(user, others)
      await work?.()
    }
    this.#running = undefined
  }

  async close(): Promise<void> {
    await this.#running
    await this.#thread?.close()
    this.#thread = undefined
  }

  async #check(
    schema: DigestedSchema,
    value: JsonValue,
    user: string,
    server: string,
  ): Promise<SchemaResult> {
    if (this.#spentBy(user).ms > maxSpentMs)
      return { kind: 'unchecked', reason: 'those of calls before took too long' }
    if (!this.#tried.has(schema.digest) && this.#spentBy(server).ms > maxSpentMs)
      return { kind: 'unchecked', reason: 'another schema of the server ended the thread' }
    const first = await this.#run(schema, value, user)
    // The schemas of others may have filled its memory.
    const isDead = first.kind === 'ended' && first.ended.by === 'death'
    const result = isDead ? await this.#run(schema, value, user) : first
    if (result.kind !== 'ended') return result
    const { isSchema, ended } = result
    this.#spend(isSchema ? server : user, Number.POSITIVE_INFINITY)
    return isSchema ? this.#refuse(schema, ended.reason) : { kind: 'unchecked', reason: ended.reason }
  }

  async #run(schema: DigestedSchema, value: JsonValue, user: string): Promise<SchemaResult | EndedBy> {
    const { digest } = schema
    const found = this.#thread === undefined ? 'unknown' : await this.#validate(digest, value, user)
    if (found !== 'unknown') return found
    const problem = schemaProblem(schema.schema)
    if (problem !== undefined) return this.#refuse(schema, problem)
    const compiled = await this.#within(compileMs, (thread) =>
      thread.call('compile', digest, stringifyJson(schema.schema)),
    )
    if (compiled instanceof ThreadEnded) return { kind: 'ended', ended: compiled, isSchema: true }
    if (compiled instanceof Error) return this.#refuse(schema, `it is not a schema: ${compiled.message}`)
    this.#spend(user, compiled)
    this.#tried.set(digest, true)
    const result = await this.#validate(digest, value, user)
    return result === 'unknown' ? { kind: 'unchecked', reason: 'the thread has ended' } : result
  }

  #refuse({ digest }: DigestedSchema, reason: string): SchemaResult {
    this.#unusable.set(digest, reason)
    return { kind: 'unchecked', reason }
  }

  async #validate(
    digest: string,
    value: JsonValue,
    user: string,
  ): Promise<SchemaResult | EndedBy | 'unknown'> {
    // Writing a value that is too deep throws.
    const validated = await this.#within(validateMs, async (thread) =>
      thread.call('validate', digest, stringifyJson(value)),
    )
    if (validated instanceof ThreadEnded) return { kind: 'ended', ended: validated, isSchema: false }
    if (validated instanceof Error) return { kind: 'unchecked', reason: validated.message }
    const { found, ms } = validated
    this.#spend(user, ms)
    if (found === 'unknown') return found
    if (found === 'error') return { kind: 'unchecked', reason: 'the value is too deep' }
    return found === null ? fits : { kind: 'mismatch', ...found }
  }

  /** The time that the checks of a user, or of a server's schemas, took in the current minute. */
  #spentBy(user: string): Spent {
    const now = this.#clock.monotonic()
    const known = this.#spent.get(user)
    return known !== undefined && now < known.until ? known : { until: now + minuteMs, ms: 0 }
  }

  #spend(user: string, ms: number): void {
    if (ms <= freeMs) return
    const spent = this.#spentBy(user)
    spent.ms += ms
    this.#spent.set(user, spent)
  }

  /** The result of a step, or its error; the thread is ended if it takes longer. */
  async #within<T>(
    ms: number,
    step: (thread: Thread<SchemaMethods>) => Promise<T>,
  ): Promise<T | Error | ThreadEnded> {
    const thread = await this.#started()
    const stepping = step(thread).catch((error: Error) =>
      this.#thread === thread ? error : new ThreadEnded('death', error.message),
    )
    try {
      return await withinLimit('it', stepping, ms)
    } catch (error) {
      // The process may have been busy for longer than the thread.
      await new Promise((resolve) => setImmediate(resolve))
      const late = await Promise.race([stepping, undefined])
      if (late !== undefined) return late
      if (this.#thread === thread) this.#thread = undefined
      await thread.close()
      return new ThreadEnded('limit', messageOf(error))
    }
  }

  async #started(): Promise<Thread<SchemaMethods>> {
    if (this.#thread !== undefined) return this.#thread
    const thread = this.#start()
    await withinLimit('the start of the thread', thread.call('started'), startMs)
    this.#thread = thread
    return thread
  }

  #start(): Thread<SchemaMethods> {
    const started = new Thread<SchemaMethods>(this.#startWorker(), {}, () => {
      if (this.#thread === started) this.#thread = undefined
    })
    return started
  }
}

export function startSchemaWorker(): Worker {
  return startWorker(module, { resourceLimits: { maxOldGenerationSizeMb: maxMemoryMb } })
}
