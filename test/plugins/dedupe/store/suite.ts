// What claims must do, whatever store they are kept in.
import type { ClaimStore, DedupeClaim, DedupeClaimResult } from '@svc/core/store'
import { expect } from 'chai'
import fc from 'fast-check'

const LEASE = 10_000
const TTL = 100_000

export interface OpenStore {
  readonly store: ClaimStore
  /** Lets milliseconds go by, for the store. */
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

let owners = 0

export function claimOf(over: Partial<DedupeClaim> = {}): DedupeClaim {
  owners++
  const claim = {
    key: 'k'.repeat(64),
    fingerprint: 'f',
    owner: `owner-${owners}`,
    tenant: 'acme',
    maxKeys: 16_000,
    leaseMs: LEASE,
    ttlMs: TTL,
  }
  return { ...claim, ...over }
}

/** `open` gives an empty store each time. `runs` bounds the random trials of a store that is slow. */
export function dedupeStoreSuite(name: string, open: () => Promise<OpenStore>, runs = 100): void {
  describe(`dedupe store ${name}`, () => {
    let opened: OpenStore
    let store: ClaimStore

    beforeEach(async () => {
      opened = await open()
      store = opened.store
    })

    afterEach(() => opened.close())

    const stateOf = async (over: Partial<DedupeClaim> = {}) => (await store.claim(claimOf(over))).state

    async function claimedBy(over: Partial<DedupeClaim> = {}): Promise<DedupeClaim> {
      const claim = claimOf(over)
      expect(await store.claim(claim)).to.deep.equal({ state: 'claimed' })
      return claim
    }

    async function sentBy(over: Partial<DedupeClaim> = {}): Promise<DedupeClaim> {
      const claim = await claimedBy(over)
      expect(await store.markSent(claim)).to.equal(true)
      return claim
    }

    it('gives a free key to the first claim, and in_flight to others', async () => {
      await claimedBy()
      expect(await stateOf()).to.equal('in_flight')
      expect(await stateOf({ key: 'another' })).to.equal('claimed')
    })

    it('gives the key to one of many concurrent claims', async () => {
      const states = await Promise.all(Array.from({ length: 200 }, () => stateOf()))
      expect(states.filter((state) => state === 'claimed')).to.have.lengthOf(1)
      expect(states.filter((state) => state === 'in_flight')).to.have.lengthOf(199)
    })

    it('repeats a claim to its owner', async () => {
      const claim = await claimedBy()
      expect(await store.claim(claim)).to.deep.equal({ state: 'claimed' })
    })

    it('does not repeat a claim to its owner after the call was sent', async () => {
      const claim = await sentBy()
      expect(await store.claim(claim)).to.deep.equal({ state: 'in_flight' })
    })

    it('distinguishes another request under the same key from a repeat, in every phase', async () => {
      const claim = await claimedBy()
      expect(await stateOf({ fingerprint: 'g' })).to.equal('reused')
      await store.markSent(claim)
      expect(await stateOf({ fingerprint: 'g' })).to.equal('reused')
      await opened.advance(LEASE + 1)
      expect(await stateOf({ fingerprint: 'g' })).to.equal('reused')
      await store.complete(claim, Buffer.from('x'))
      expect(await stateOf({ fingerprint: 'g' })).to.equal('reused')
    })

    it('frees a key that was released, before the call was marked as sent and after', async () => {
      await store.release(await claimedBy())
      await store.release(await sentBy())
      expect(await stateOf()).to.equal('claimed')
    })

    it('returns the stored response byte for byte', async () => {
      const response = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
      expect(await store.complete(await sentBy(), response)).to.equal(true)
      const found = await store.claim(claimOf())
      expect(found.state).to.equal('completed')
      expect(Buffer.from(responseOf(found) ?? [])).to.deep.equal(response)
    })

    it('refuses new keys of a tenant that has as many as it may have, until some end, and takes those of others', async () => {
      const inOneSpace = Array.from({ length: 100 }, (_, n) => `key-${n}`).filter(
        (key) => spaceNameOf(key) === 'claims-0',
      )
      const [first = '', second = '', third = ''] = inOneSpace
      const few = { maxKeys: 16 }
      const sent = await sentBy({ ...few, key: first })
      expect(await stateOf({ ...few, key: second })).to.equal('full')
      expect(await stateOf({ ...few, key: first })).to.equal('in_flight')
      await store.complete(sent, null)
      expect(await stateOf({ ...few, key: second })).to.equal('full')
      const other = await claimedBy({ ...few, key: second, tenant: 'a name with a space' })
      expect(await stateOf({ ...few, key: third, tenant: other.tenant })).to.equal('full')
      await store.release(other)
      expect(await stateOf({ ...few, key: third, tenant: other.tenant })).to.equal('claimed')
      await opened.advance(TTL)
      expect(await stateOf({ ...few, key: second })).to.equal('claimed')
    })

    it('distinguishes an empty response from one that was not stored', async () => {
      await store.complete(await sentBy(), Buffer.alloc(0))
      await store.complete(await sentBy({ key: 'not-kept' }), null)
      expect(responseOf(await store.claim(claimOf()))).to.have.lengthOf(0)
      expect(responseOf(await store.claim(claimOf({ key: 'not-kept' })))).to.equal(null)
    })

    it('stores a response of a megabyte', async () => {
      const response = Buffer.alloc(1024 * 1024, 'response')
      await store.complete(await sentBy(), response)
      expect(Buffer.from(responseOf(await store.claim(claimOf())) ?? []).equals(response)).to.equal(true)
    })

    it('remembers that an outcome is unknown', async () => {
      expect(await store.markUnknown(await sentBy())).to.equal(true)
      expect(await stateOf()).to.equal('unknown')
    })

    it('keeps a lease for a process whose clock reads a little less', async () => {
      const claim = await claimedBy()
      await opened.advance(-100)
      expect(await stateOf()).to.equal('in_flight')
      expect(await store.markSent(claim)).to.equal(true)
      await opened.advance(-100)
      expect(await stateOf()).to.equal('in_flight')
    })

    it('frees a claim that lapses before the call was sent, and refuses its owner then', async () => {
      const late = await claimedBy()
      await opened.advance(LEASE - 1_000)
      expect(await stateOf()).to.equal('in_flight')
      await opened.advance(1_001)
      const next = await claimedBy()
      expect(await store.markSent(late)).to.equal(false)
      expect(await store.renew(late)).to.equal(false)
      await store.release(late)
      expect(await store.complete(late, Buffer.from('late'))).to.equal(false)
      expect(await store.markUnknown(late)).to.equal(false)
      expect(await store.markSent(next)).to.equal(true)
    })

    it('never frees a call that lapses after it was marked as sent', async () => {
      await sentBy()
      await opened.advance(LEASE + 1)
      expect(await stateOf()).to.equal('unknown')
      await opened.advance(TTL - 1_000)
      expect(await stateOf()).to.equal('unknown')
      await opened.advance(1_001)
      expect(await stateOf()).to.equal('claimed')
    })

    it('accepts the outcome of a lapsed call from its owner', async () => {
      const claim = await sentBy()
      await opened.advance(LEASE + 1)
      expect(await stateOf()).to.equal('unknown')
      expect(await store.complete(claim, Buffer.from('late'))).to.equal(true)
      expect(await stateOf()).to.equal('completed')
    })

    it('keeps claims that are renewed', async () => {
      const waiting = await claimedBy()
      const running = await sentBy({ key: 'running' })
      for (let renewal = 0; renewal < 3; renewal++) {
        await opened.advance(LEASE - 1_000)
        expect(await store.renew(waiting)).to.equal(true)
        expect(await store.renew(running)).to.equal(true)
      }
      expect(await stateOf()).to.equal('in_flight')
      expect(await stateOf({ key: 'running' })).to.equal('in_flight')
    })

    it('deletes an outcome when its time to live, counted from the outcome, is over', async () => {
      const claim = await sentBy()
      await opened.advance(LEASE - 1_000)
      await store.complete(claim, Buffer.from('x'))
      await opened.advance(TTL - 1_000)
      expect(await stateOf()).to.equal('completed')
      await opened.advance(1_001)
      expect(await stateOf()).to.equal('claimed')
    })

    it('lets only the owner mark, renew, release or end a call', async () => {
      await claimedBy()
      const other = claimOf()
      expect(await store.markSent(other)).to.equal(false)
      expect(await store.renew(other)).to.equal(false)
      await store.release(other)
      expect(await store.complete(other, Buffer.from('x'))).to.equal(false)
      expect(await store.markUnknown(other)).to.equal(false)
      expect(await stateOf()).to.equal('in_flight')
    })

    it('marks no deleted claim', async () => {
      expect(await store.markSent(claimOf())).to.equal(false)
      expect(await store.renew(claimOf())).to.equal(false)
    })

    it('accepts the outcome of a deleted claim', async () => {
      expect(await store.complete(claimOf(), Buffer.from('x'))).to.equal(true)
      expect(await store.markUnknown(claimOf({ key: 'another' }))).to.equal(true)
      expect(await stateOf()).to.equal('completed')
      expect(await stateOf({ key: 'another' })).to.equal('unknown')
    })

    it('renews nothing that has ended', async () => {
      const claim = await sentBy()
      await store.complete(claim, Buffer.from('x'))
      expect(await store.renew(claim)).to.equal(false)
      expect(await store.markSent(claim)).to.equal(false)
      await store.release(claim)
      expect(await stateOf()).to.equal('completed')
    })

    it('never lets a key be sent twice within its time to live, for any operations of three owners at any time', async () => {
      const act = fc.constantFrom('claim', 'send', 'renew', 'release', 'complete', 'markUnknown')
      const step = fc.record({
        owner: fc.nat({ max: 2 }),
        act,
        pause: fc.constantFrom(0, 0, 0, 4_000, 12_000),
      })
      let run = 0
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
          const key = `run-${run++}`
          const model = new Model()
          const claims = [0, 1, 2].map(() => claimOf({ key }))
          for (const { owner, act, pause } of steps) {
            const claim = claims[owner]!
            model.now += pause
            await opened.advance(pause)
            expect(await perform(store, act, claim), act).to.deep.equal(model.perform(act, claim.owner))
          }
        }),
        { numRuns: runs },
      )
    })
  })
}

type Act = 'claim' | 'send' | 'renew' | 'release' | 'complete' | 'markUnknown'

async function perform(store: ClaimStore, act: Act, claim: DedupeClaim): Promise<unknown> {
  switch (act) {
    case 'claim':
      return (await store.claim(claim)).state
    case 'send':
      return store.markSent(claim)
    case 'renew':
      return store.renew(claim)
    case 'release':
      return store.release(claim)
    case 'complete':
      return store.complete(claim, Buffer.from('x'))
    case 'markUnknown':
      return store.markUnknown(claim)
  }
}

/** A model of one key: its phase, its owner and its times. */
class Model {
  now = 0
  #owner: string | undefined
  #isSent = false
  #end: 'completed' | 'unknown' | undefined
  #leased = 0
  #forgotten = 0

  perform(act: Act, owner: string): unknown {
    this.#forget()
    const isRunning = this.#owner === owner && this.#end === undefined
    switch (act) {
      case 'claim':
        return this.#claim(owner)
      case 'send':
        if (isRunning) this.#isSent = true
        if (isRunning) this.#renew()
        return isRunning
      case 'renew':
        if (isRunning) this.#renew()
        return isRunning
      case 'release':
        if (isRunning) this.#owner = undefined
        return undefined
      case 'complete':
      case 'markUnknown':
        if (this.#owner !== undefined && this.#owner !== owner) return false
        this.#owner = owner
        this.#isSent = true
        this.#end = act === 'complete' ? 'completed' : 'unknown'
        this.#forgotten = this.now + TTL
        return true
    }
  }

  #claim(owner: string): DedupeClaimResult['state'] {
    if (this.#end !== undefined) return this.#end
    const isOurs = this.#owner === owner && !this.#isSent
    if (this.#owner !== undefined && !isOurs) {
      if (this.now < this.#leased) return 'in_flight'
      if (this.#isSent) return 'unknown'
    }
    this.#owner = owner
    this.#isSent = false
    this.#renew()
    return 'claimed'
  }

  #renew(): void {
    this.#leased = this.now + LEASE
    this.#forgotten = this.#leased + (this.#isSent ? TTL : 0)
  }

  #forget(): void {
    if (this.#owner === undefined || this.now < this.#forgotten) return
    this.#owner = undefined
    this.#isSent = false
    this.#end = undefined
  }
}

function responseOf(standing: DedupeClaimResult): Uint8Array | null | undefined {
  return standing.state === 'completed' ? standing.response : undefined
}

/** The space of a key: 16 of them, by a sum of its characters. */
export function spaceNameOf(key: string): string {
  return `claims-${[...key].reduce((sum, character) => (sum * 31 + character.charCodeAt(0)) % 16, 0)}`
}
