import { bind, mandates, type Outcome, policyTokens, verdict } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import {
  ClaimStore,
  claimStore,
  type DedupeClaim,
  type DedupeClaimResult,
  type Loss,
  MemoryKeyValueStore,
} from '@svc/core/store'
import { ap2Plugin } from '@svc/plugin-ap2'
import { expect } from 'chai'
import { createStage, fakeContext } from 'svc-sdk/testing'
import { controlOf, makeCall } from '../../support/call.js'
import { args, issue, section } from './rig.js'

class FailingStore extends ClaimStore {
  fails: 'claim' | 'markSent' | undefined
  readonly released: string[] = []

  loss: Loss | undefined
  /** Whether the tenant has as many keys as it may have when another one is claimed. */
  isFull: (() => boolean) | undefined

  override async claim(claim: DedupeClaim): Promise<DedupeClaimResult> {
    if (this.fails === 'claim') throw new Error('down')
    if (this.isFull?.()) return { state: 'full' }
    const result = await super.claim(claim)
    return result.state === 'claimed' && this.loss !== undefined ? { ...result, loss: this.loss } : result
  }
  override markSent(claim: DedupeClaim) {
    return this.fails === 'markSent' ? Promise.reject(new Error('down')) : super.markSent(claim)
  }
  override release(claim: DedupeClaim) {
    this.released.push(claim.key)
    return super.release(claim)
  }
}

describe('the store of used mandates', () => {
  let store: FailingStore
  let bundle: string

  beforeEach(async () => {
    store = new FailingStore(new MemoryKeyValueStore())
    bundle = JSON.stringify(await issue('chain'))
  })

  async function run(over: object, idempotencyKey: string | null = 'order-1') {
    const context = fakeContext('/')
    bind(context.container, policyTokens.claimsKeys, { useValue: true })
    bind(context.container, claimStore, { useValue: store })
    const stage = createStage(ap2Plugin, { ...section, ...over }, context)
    const whole = new Pipeline([{ name: 'ap2', stage }], async (call): Promise<Outcome> => {
      call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
      const refused = await controlOf(call).commitHolds()
      if (refused !== undefined) return refused
      return { kind: 'completed', status: 200, headers: {}, body: Buffer.from('{}') }
    })
    await whole.start()
    const call = makeCall({
      server: 'shop',
      tool: 'buy',
      args,
      headers: { 'x-ap2-bundle': bundle },
      request: { idempotencyKey },
    })
    const outcome = await whole.run(controlOf(call))
    await whole.stop()
    return { outcome, call }
  }

  for (const fails of ['claim', 'markSent'] as const) {
    it(`refuses a call if ${fails} fails, and frees the reserved uses`, async () => {
      store.fails = fails
      const { outcome } = await run({})
      expect(outcome).to.include({ kind: 'denied', code: 'STORE_UNAVAILABLE' })
      store.fails = undefined
      expect((await run({}, 'order-2')).outcome).to.include({ kind: 'completed' })
    })

    it(`passes a call in the mode observe if ${fails} fails`, async () => {
      store.fails = fails
      expect((await run({ mode: 'observe' })).outcome).to.include({ kind: 'completed' })
    })
  }

  for (const full of ['the key', 'the mandate'] as const)
    it(`refuses a call if the tenant has no room for ${full}`, async () => {
      // The key of the call is claimed first.
      let claims = 0
      store.isFull = () => ++claims === (full === 'the key' ? 1 : 2)
      expect((await run({})).outcome).to.include({ kind: 'denied', code: 'STORE_UNAVAILABLE' })
      store.isFull = undefined
      expect((await run({}, 'order-2')).outcome).to.include({ kind: 'completed' })
    })

  it('refuses mandates that are older than a loss of its content, whatever has passed since, and takes newer ones', async () => {
    store.loss = { at: Date.UTC(2100, 0), ageMs: 31 * 86_400_000 }
    expect((await run({})).outcome).to.include({ kind: 'denied', code: 'STORE_UNAVAILABLE' })
    store.loss = { at: 0, ageMs: 1000 }
    expect((await run({}, 'order-2')).outcome).to.include({ kind: 'completed' })
  })

  it('keeps a use until the mandate has expired', async () => {
    const { call } = await run({})
    expect(call.get(mandates)?.record).to.include({ verified: true })
    const again = await run({}, 'order-2')
    expect(again.call.findings.map(({ reason }) => reason)).to.deep.equal(['ap2_replayed'])
    expect(again.call.get(mandates)).to.deep.include({
      record: { verified: false, reason: 'ap2_replayed' },
      headers: {},
    })
  })

  it('refuses a repeat that no stage responds to, directly before it would be sent', async () => {
    await run({})
    const { outcome, call } = await run({})
    expect(outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
    expect(call.findings).to.deep.include({
      reason: 'ap2_replayed',
      stage: 'ap2',
      level: 'gateway',
      detail: 'the mandate was used by another call',
      isLate: true,
    })
  })
})
