// The dedupe stage in a pipeline of its own, on a store that records its operations.
import {
  type Call,
  type Completed,
  type DedupeClaim,
  type DedupeStore,
  type Outcome,
  tokens,
} from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { dedupePlugin, MemoryDedupeStore } from '@svc/plugin-dedupe'
import { type CallOverrides, controlOf, makeCall } from '../../support/call.js'
import { StageRig, served } from '../../support/stage-rig.js'

/** Records its operations, and can do what a test wants in place of one. */
class SpyStore extends MemoryDedupeStore {
  readonly asked: [keyof DedupeStore, DedupeClaim, ...unknown[]][] = []
  readonly instead: Partial<Record<keyof DedupeStore, () => Promise<never> | Promise<boolean>>> = {}

  override claim(claim: DedupeClaim) {
    return this.#recorded('claim', claim) ?? super.claim(claim)
  }
  override markSent(claim: DedupeClaim) {
    return this.#recorded('markSent', claim) ?? super.markSent(claim)
  }
  override renew(claim: DedupeClaim) {
    return this.#recorded('renew', claim) ?? super.renew(claim)
  }
  override release(claim: DedupeClaim) {
    return this.#recorded('release', claim) ?? super.release(claim)
  }
  override complete(claim: DedupeClaim, response: Uint8Array | null) {
    return this.#recorded('complete', claim) ?? super.complete(claim, response)
  }
  override markUnknown(claim: DedupeClaim) {
    return this.#recorded('markUnknown', claim) ?? super.markUnknown(claim)
  }

  get names(): string[] {
    return this.asked.map(([name]) => name)
  }

  #recorded(name: keyof DedupeStore, claim: DedupeClaim): Promise<never> | undefined {
    this.asked.push([name, claim])
    return this.instead[name]?.() as Promise<never> | undefined
  }
}

export class DedupeRig extends StageRig {
  readonly store = new SpyStore()
  /** How many calls reached the upstream. */
  sent = 0
  #started: Pipeline[] = []

  constructor() {
    super()
    this.bind(tokens.DedupeStore, this.store)
  }

  /** A pipeline of the stage alone, in front of an upstream with this response. */
  async pipeline(
    section: object = {},
    response: (call: Call) => Outcome | Promise<Outcome> = () => responded(),
  ): Promise<Pipeline> {
    const stage = this.create(dedupePlugin, section)
    const whole = new Pipeline([{ name: 'dedupe', stage }], async (call) => {
      const refused = await controlOf(call).commitHolds()
      if (refused !== undefined) return refused
      this.sent++
      return response(call)
    })
    await whole.start()
    this.#started.push(whole)
    return whole
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    for (const pipeline of this.#started.splice(0)) await pipeline.stop()
    await super[Symbol.asyncDispose]()
  }
}

export const responded = (text = 'ran', over: Partial<Completed> = {}): Outcome => ({
  ...served,
  headers: { 'content-type': 'text/plain' },
  body: Buffer.from(text),
  ...over,
})

export const keyed = (over: CallOverrides = {}): Call =>
  makeCall({ ...over, request: { idempotencyKey: 'order-7', ...over.request } })

export const textOf = (outcome: Outcome) =>
  outcome.kind === 'completed' && outcome.body instanceof Uint8Array
    ? Buffer.from(outcome.body).toString()
    : outcome
