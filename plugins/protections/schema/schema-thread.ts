// Validates values by the schemas of servers in one thread, one after the other. Each step has a time limit; past it the
// thread is ended, and another one serves the next value.
import { withinLimit } from '@svc/core'
import { type JsonObject, type JsonValue, messageOf, sha256Hex } from '@svc/core/json'
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

/** A schema with its digest. The text of a definition that was pinned does not change. */
export interface DigestedSchema {
  readonly digest: string
  readonly schema: JsonObject
}

export function digested(schema: JsonObject): DigestedSchema {
  return { digest: sha256Hex(JSON.stringify(schema)), schema }
}

/** `unusable`: the schema is outside the limits, or is none. `overrun`: this value took too long. */
export type SchemaResult =
  | { readonly kind: 'fits' }
  | ({ readonly kind: 'mismatch' } & Mismatch)
  | { readonly kind: 'unusable' | 'overrun'; readonly reason: string }

const fits: SchemaResult = { kind: 'fits' }

export class SchemaThread {
  #thread: Thread<SchemaMethods> | undefined
  #queue: Promise<unknown> = Promise.resolve()
  #unusable = new BoundedMap<string, string>(maxRefused)

  /** Never rejects for what a schema or a value is. */
  check(schema: DigestedSchema, value: JsonValue): Promise<SchemaResult> {
    const known = this.#unusable.get(schema.digest)
    if (known !== undefined) return Promise.resolve({ kind: 'unusable', reason: known })
    const checking = this.#queue.then(() => this.#check(schema, value))
    this.#queue = checking.catch(() => undefined)
    return checking
  }

  async close(): Promise<void> {
    await this.#queue
    await this.#thread?.close()
    this.#thread = undefined
  }

  async #check(schema: DigestedSchema, value: JsonValue): Promise<SchemaResult> {
    const { digest } = schema
    const found = this.#thread === undefined ? 'unknown' : await this.#validate(digest, value)
    if (found !== 'unknown') return found
    const problem = schemaProblem(schema.schema) ?? (await this.#compile(schema))
    if (problem === undefined) {
      const result = await this.#validate(digest, value)
      return result === 'unknown' ? { kind: 'overrun', reason: 'the thread has ended' } : result
    }
    this.#unusable.set(digest, problem)
    return { kind: 'unusable', reason: problem }
  }

  async #validate(digest: string, value: JsonValue): Promise<SchemaResult | 'unknown'> {
    const mismatch = await this.#within(validateMs, (thread) => thread.call('validate', digest, value))
    if (mismatch instanceof Error) return { kind: 'overrun', reason: mismatch.message }
    if (mismatch === 'unknown') return mismatch
    return mismatch === null ? fits : { kind: 'mismatch', ...mismatch }
  }

  async #compile({ digest, schema }: DigestedSchema): Promise<string | undefined> {
    const failed = await this.#within(compileMs, (thread) => thread.call('compile', digest, schema))
    return failed instanceof Error ? `it is not a schema: ${failed.message}` : undefined
  }

  /** The result of a step, or its error; the thread is ended if it takes longer. */
  async #within<T>(ms: number, step: (thread: Thread<SchemaMethods>) => Promise<T>): Promise<T | Error> {
    const thread = await this.#started()
    try {
      return await withinLimit(
        'it',
        step(thread).catch((error: Error) => error),
        ms,
      )
    } catch (error) {
      if (this.#thread === thread) this.#thread = undefined
      await thread.close()
      return new Error(messageOf(error))
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
    const worker = startWorker(module, { resourceLimits: { maxOldGenerationSizeMb: maxMemoryMb } })
    const started = new Thread<SchemaMethods>(worker, {}, () => {
      if (this.#thread === started) this.#thread = undefined
    })
    return started
  }
}
