import type { DedupeClaim } from '@svc/core/store'
import { expect } from 'chai'
import type { CallOverrides } from '../../support/call.js'
import { controlOf } from '../../support/call.js'
import { ofEachTest } from '../../support/parts.js'
import { DedupeRig, keyed } from './rig.js'

describe('an idempotency key', () => {
  const rig = ofEachTest(() => new DedupeRig())

  async function claimed(over: CallOverrides = {}, section: object = {}): Promise<DedupeClaim> {
    const running = await rig.pipeline(section)
    rig.store.asked.length = 0
    await running.run(controlOf(keyed(over)))
    const [, claim] = rig.store.asked[0]!
    const [, sent] = rig.store.asked.find(([name]) => name === 'markSent') ?? [undefined, claim]
    return { ...claim, ttlMs: sent.ttlMs }
  }

  it('has a fixed length and does not reveal its parts', async () => {
    const { key, fingerprint, owner } = await claimed({ request: { idempotencyKey: 'k'.repeat(1024) } })
    expect(key).to.match(/^[\w-]{43}$/)
    expect(fingerprint).to.match(/^[\w-]{43}$/)
    expect(owner).to.match(/^[\w-]{16}$/)
  })

  it('differs by tenant, principal, server, tool, idempotency key, round and namespace', async () => {
    const keys = [
      await claimed(),
      await claimed({ caller: {} }),
      await claimed({ caller: { user: 'ann@acme.example', userId: 'u-1' } }),
      await claimed({ caller: { tenant: 'other', user: 'ann@acme.example', userId: 'u-1' } }),
      await claimed({ caller: { user: 'ann@acme.example', userId: 'u-2' } }),
      await claimed({ caller: { userId: 'u-1', clientId: 'c-1' } }),
      await claimed({ caller: { userId: 'u-1', clientId: 'c-2' } }),
      await claimed({ server: 'more' }),
      await claimed({ tool: 'more' }),
      await claimed({ request: { idempotencyKey: 'more' } }),
      await claimed({ protocol: 'mcp', request: { round: '{}' } }),
      await claimed({}, { namespace: 'more' }),
    ].map(({ key }) => key)
    expect(new Set(keys).size).to.equal(keys.length)
  })

  it('stays the same when the address of a person changes, and for other arguments and versions', async () => {
    const ann = await claimed({ caller: { user: 'ann@acme.example', userId: 'u-1' } })
    const renamed = await claimed({ caller: { user: 'ann.b@acme.example', userId: 'u-1' } })
    const other = await claimed({ caller: { user: 'ann', userId: 'u-1' }, args: { a: 1 }, version: '2.0.0' })
    expect([renamed.key, other.key]).to.deep.equal([ann.key, ann.key])
    expect(renamed.fingerprint).to.equal(ann.fingerprint)
    expect(other.fingerprint).to.not.equal(ann.fingerprint)
  })

  it('takes the version for a part of the request if the caller has chosen it', async () => {
    const versions = ['1.0.0', '2.0.0']
    const prints = async (protocol: 'invoke' | 'a2a' | 'mcp') => {
      const found: string[] = []
      for (const version of versions) found.push((await claimed({ protocol, version })).fingerprint)
      return found
    }
    const invoke = await prints('invoke')
    const a2a = await prints('a2a')
    const mcp = await prints('mcp')
    expect(invoke[0]).to.not.equal(invoke[1])
    expect(a2a).to.deep.equal(invoke)
    expect(mcp[0]).to.equal(mcp[1])
    expect(mcp[0]).to.not.equal(invoke[0])
  })

  for (const [ttlSec, ttlMs, warned] of [
    [86_400, 86_400_000, 0],
    [0, 1_000, 1],
    [-5, 1_000, 1],
    [2_592_001, 2_592_000_000, 1],
  ] as const) {
    it(`is remembered for ${ttlMs / 1000} s if ttlSec is ${ttlSec}`, async () => {
      expect((await claimed({}, { ttlSec })).ttlMs).to.equal(ttlMs)
      expect(rig.context.warnings).to.have.lengthOf(warned)
    })
  }
})
