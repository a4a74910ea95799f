// The dedupe stage in a pipeline of its own, on a store that records its operations.
import {
  type Call,
  type Commit,
  type Completed,
  type Outcome,
  type Space,
  tokens,
  type Write,
} from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { ClaimStore, type DedupeClaim, MAX_KEYS, MemoryKeyValueStore } from '@svc/core/store'
import { dedupePlugin } from '@svc/plugin-dedupe'
import { type CallOverrides, controlOf, makeCall } from '../../support/call.js'
import { StageRig, served } from '../../support/stage-rig.js'

type Operation = 'claim' | 'markSent' | 'renew' | 'release' | 'complete' | 'markUnknown'

/** Records the operations on claims, and can do what a test wants in place of one. */
class SpyStore extends MemoryKeyValueStore {
  readonly asked: [Operation, DedupeClaim][] = []
  readonly instead: Partial<Record<Operation, () => Promise<never> | Promise<false>>> = {}

  override async commit(space: Space, writes: readonly Write[]): Promise<Commit> {
    const name = operationOf(writes[0]!)
    this.asked.push([name, claimIn(writes[0]!)])
    if ((await this.instead[name]?.()) !== false) return super.commit(space, writes)
    return { now: this.now(), revision: '', isDone: false, entries: [undefined] }
  }

  get names(): string[] {
    return this.asked.map(([name]) => name)
  }

  async complete(claim: DedupeClaim, response: Uint8Array): Promise<void> {
    await new ClaimStore(this).complete(claim, response)
  }
}

const DAY = 86_400_000

function operationOf({ version, expect }: Write): Operation {
  const [phase = ''] = version.split(':')
  if (expect === version) return 'renew'
  const operations: Record<string, Operation> = {
    c: 'claim',
    s: 'markSent',
    free: 'release',
    d: 'complete',
    u: 'markUnknown',
  }
  return operations[phase]!
}

function claimIn({ key, value = '', version, owner: tenant = '', ttlMs = 0 }: Write): DedupeClaim {
  const [, owner = ''] = version.split(':')
  const [fingerprint = '', leaseMs] = value.split(' ')
  // The mark that a call is sent lasts for both times.
  const leftMs = ttlMs - Number(leaseMs)
  const times = { leaseMs: Number(leaseMs), ttlMs: leftMs > 0 ? leftMs : DAY }
  return { key, fingerprint, owner, tenant, maxKeys: MAX_KEYS, ...times }
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
