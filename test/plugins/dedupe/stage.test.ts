import {
  bind,
  type Call,
  type Completed,
  type DedupeClaim,
  type DedupeStore,
  dedupe,
  type Identity,
  identity,
  type Outcome,
  Refusal,
  tokens,
} from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { dedupePlugin, MemoryDedupeStore } from '@svc/plugin-dedupe'
import { expect } from 'chai'
import fc from 'fast-check'
import sinon, { type SinonFakeTimers } from 'sinon'
import { createStage, type FakeCall, fakeContext } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'

const KEY = 'order-7'

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
  override complete(claim: DedupeClaim, answer: Uint8Array | null) {
    return this.#recorded('complete', claim) ?? super.complete(claim, answer)
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

describe('the dedupe stage', () => {
  let store: SpyStore
  let sent: number
  let stop: (() => Promise<void>)[]

  beforeEach(() => {
    store = new SpyStore()
    sent = 0
    stop = []
  })

  afterEach(async () => {
    for (const each of stop) await each()
  })

  const answered = (text = 'ran', over: Partial<Completed> = {}): Outcome => ({
    kind: 'completed',
    sent: 'yes',
    status: 200,
    headers: { 'content-type': 'text/plain' },
    body: Buffer.from(text),
    ...over,
  })

  /** A pipeline of the stage alone, in front of an upstream that answers so. */
  async function pipeline(
    section: object = {},
    answer: (call: Call) => Outcome | Promise<Outcome> = () => answered(),
  ): Promise<Pipeline> {
    const context = fakeContext('/')
    bind<DedupeStore>(context.container, tokens.DedupeStore, { useValue: store })
    const stage = createStage(dedupePlugin, section, context)
    const whole = new Pipeline([{ name: 'dedupe', stage }], async (call) => {
      const refused = await call.commitHolds()
      if (refused !== undefined) return refused
      sent++
      call.sent = 'yes'
      return answer(call)
    })
    await whole.start()
    stop.push(() => whole.stop())
    return whole
  }

  const keyed = (over: FakeCall = {}): Call =>
    makeCall({ ...over, request: { idempotencyKey: KEY, ...over.request } })

  const textOf = (outcome: Outcome) =>
    outcome.kind === 'completed' && outcome.body instanceof Uint8Array
      ? Buffer.from(outcome.body).toString()
      : outcome

  it('asks the store nothing for a call without a key, or that is no call of a tool', async () => {
    const running = await pipeline()
    await running.run(makeCall())
    await running.run(keyed({ request: { kind: 'prompt' } }))
    expect(sent).to.equal(2)
    expect(store.asked).to.deep.equal([])
  })

  it('claims, marks directly before the send, and keeps the answer, in this order', async () => {
    const order: string[] = []
    const running = await pipeline({}, () => {
      order.push(...store.names, 'sent')
      return answered()
    })
    await running.run(keyed())
    expect(order).to.deep.equal(['claim', 'markSent', 'sent'])
    expect(store.names).to.deep.equal(['claim', 'markSent', 'complete'])
  })

  it('does not send a call of which the store cannot be asked', async () => {
    store.instead.claim = () => Promise.reject(new Error('it is down'))
    const outcome = await (await pipeline()).run(keyed())
    expect(outcome).to.deep.include({ kind: 'failed', code: 'STORE_UNAVAILABLE', sent: 'no' })
    expect(sent).to.equal(0)
  })

  it('does not send a call that cannot be marked, and frees its key', async () => {
    store.instead.markSent = () => Promise.reject(new Error('it is down'))
    const outcome = await (await pipeline()).run(keyed())
    expect(outcome).to.deep.include({ kind: 'denied', code: 'STORE_UNAVAILABLE', sent: 'no' })
    expect(sent).to.equal(0)
    expect(store.names).to.deep.equal(['claim', 'markSent', 'release'])
  })

  it('does not send a call whose claim was lost', async () => {
    store.instead.markSent = () => Promise.resolve(false)
    const outcome = await (await pipeline()).run(keyed())
    expect(outcome).to.deep.include({ kind: 'denied', code: 'IDEMPOTENT_DUPLICATE', sent: 'no' })
    expect(outcome).to.have.deep.property('headers', { 'retry-after': '1' })
    expect(sent).to.equal(0)
  })

  it('forgets nothing it was told of a call whose record could not be written', async () => {
    const running = await pipeline()
    const call = keyed()
    call.onSettle(() => {
      throw new Refusal('OUTCOME_UNRECORDED', 'the disk is full')
    })
    expect(await running.run(call)).to.deep.include({ kind: 'failed', code: 'OUTCOME_UNRECORDED' })
    expect(store.names).to.deep.equal(['claim', 'markSent', 'markUnknown'])
    expect(await running.run(keyed())).to.deep.include({ code: 'IDEMPOTENT_OUTCOME_UNKNOWN', sent: 'no' })
    expect(sent).to.equal(1)
  })

  it('keeps the answer when a rule further out holds it back, as that will hold back the replay', async () => {
    const inner = await pipeline()
    const { stage } = inner.stages[0]!
    const outer = new Pipeline(
      [
        {
          name: 'judge',
          stage: {
            async handle(_call, next) {
              const { sent } = await next()
              return { kind: 'denied', sent, code: 'PAYLOAD_TOO_LARGE', message: 'no' }
            },
          },
        },
        { name: 'dedupe', stage },
      ],
      async (call) => {
        await call.commitHolds()
        call.sent = 'yes'
        return answered()
      },
    )
    expect(await outer.run(keyed())).to.include({ code: 'PAYLOAD_TOO_LARGE' })
    expect(store.names).to.deep.equal(['claim', 'markSent', 'complete'])
    expect(textOf(await inner.run(keyed()))).to.equal('ran')
  })

  describe('three times in each lease', () => {
    let timers: SinonFakeTimers

    beforeEach(() => {
      timers = sinon.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    })

    afterEach(() => timers.restore())

    it('repeats an end that the store did not take, until it does', async () => {
      store.instead.complete = () => Promise.reject(new Error('it is down'))
      const running = await pipeline({ leaseSec: 3 })
      expect(textOf(await running.run(keyed()))).to.equal('ran')
      await timers.tickAsync(1000)
      delete store.instead.complete
      await timers.tickAsync(2000)
      expect(store.names.filter((name) => name === 'complete')).to.have.length(3)
      expect(textOf(await running.run(keyed()))).to.equal('ran')
      expect(sent).to.equal(1)
    })

    it('renews the claim of a call that runs', async () => {
      let end: ((outcome: Outcome) => void) | undefined
      const running = await pipeline({ leaseSec: 3 }, () => new Promise((resolve) => (end = resolve)))
      const first = running.run(keyed())
      await timers.tickAsync(2000)
      end?.(answered())
      await first
      await timers.tickAsync(2000)
      expect(store.names).to.deep.equal(['claim', 'markSent', 'renew', 'renew', 'complete'])
    })
  })

  it('marks what became of the key on the call', async () => {
    const running = await pipeline({ maxAnswerKb: 1 }, () => answered('x'.repeat(2000)))
    const calls = [keyed(), keyed(), keyed({ args: { other: true } }), makeCall()]
    for (const call of calls) await running.run(call)
    expect(calls.map((call) => call.get(dedupe))).to.deep.equal(['first', 'duplicate', undefined, undefined])
    const replayed = keyed({ tool: 'small' })
    const small = await pipeline()
    await small.run(keyed({ tool: 'small' }))
    await small.run(replayed)
    expect(replayed.get(dedupe)).to.equal('replay')
  })

  it('replays what it is told to, whatever bytes it has', async () => {
    let body: Uint8Array = Buffer.alloc(0)
    const running = await pipeline({}, () => answered('', { body }))
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        body = bytes
        const tool = `tool-${run++}`
        await running.run(keyed({ tool }))
        const replay = await running.run(keyed({ tool }))
        expect(replay).to.have.nested.property('headers.x-dedupe', 'replay')
        expect(Buffer.from((replay as Completed).body as Uint8Array).equals(bytes)).to.equal(true)
      }),
    )
  })

  it('puts the new id into a JSON-RPC response and changes nothing else', async () => {
    let text = ''
    const running = await pipeline({}, () => answered('', { body: Buffer.from(text), digest: null }))
    let run = 0
    const id = fc.oneof(fc.string(), fc.integer())
    const spaced = fc.constantFrom('', ' ', '\n\t')
    await fc.assert(
      fc.asyncProperty(
        fc.json(),
        id,
        id,
        fc.boolean(),
        spaced,
        async (result, old, fresh, isFirst, space) => {
          const tool = `tool-${run++}`
          const shown = (one: string | number) => {
            const named = `${space}"id"${space}:${space}${JSON.stringify(one)}${space}`
            const rest = `"jsonrpc":"2.0",${space}"result":${result}`
            return `${space}{${isFirst ? `${named},${rest}` : `${rest},${named}`}}${space}`
          }
          text = shown(old)
          const ask = (rpcId: string | number) =>
            running.run(keyed({ protocol: 'mcp', tool, request: { rpcId } }))
          await ask(old)
          expect(textOf(await ask(fresh))).to.equal(shown(fresh))
        },
      ),
    )
  })

  for (const text of [
    '',
    'no JSON',
    '[{"id":1}]',
    '{"id',
    '{"id":',
    '{"id":1',
    '{"a":{"id":1}}',
    '"id"',
    '{,}',
  ]) {
    it(`leaves ${JSON.stringify(text)} as it is`, async () => {
      const running = await pipeline({}, () => answered(text, { digest: null }))
      const ask = () => running.run(keyed({ protocol: 'mcp', request: { rpcId: 2 } }))
      await ask()
      const replay = await ask()
      expect(replay).to.have.nested.property('headers.x-dedupe', 'replay')
      expect(textOf(replay)).to.equal(text)
    })
  }

  it('refuses a stored answer that is not ours', async () => {
    const running = await pipeline()
    await running.run(keyed())
    const [, claim] = store.asked[0]!
    for (const bytes of [
      '',
      'x',
      '{}\n',
      '[]\nx',
      '{"status":"200","headers":{},"digest":null,"error":null}\n',
    ]) {
      await store.complete(claim, Buffer.from(bytes))
      expect(await running.run(keyed()), bytes).to.deep.include({ code: 'STORE_UNAVAILABLE', sent: 'no' })
    }
    expect(sent).to.equal(1)
  })

  describe('a key', () => {
    const caller = (over: Partial<Identity>): Identity => ({
      tenant: 'acme',
      authenticated: true,
      roles: [],
      ...over,
    })

    async function claimed(over: FakeCall = {}, who?: Identity, section: object = {}): Promise<DedupeClaim> {
      const running = await pipeline(section)
      const call = keyed(over)
      if (who !== undefined) call.set(identity, who)
      store.asked.length = 0
      await running.run(call)
      return store.asked[0]![1]
    }

    it('has a fixed length and says nothing of what it is made of', async () => {
      const { key, fingerprint, owner } = await claimed({ request: { idempotencyKey: 'k'.repeat(1024) } })
      expect(key).to.match(/^[0-9a-f]{64}$/)
      expect(fingerprint).to.match(/^[0-9a-f]{64}$/)
      expect(owner).to.match(/^[\w-]{22}$/)
    })

    it('is that of one tenant, principal, server, tool, idempotency key, round and namespace', async () => {
      const keys = [
        await claimed(),
        await claimed({}, caller({})),
        await claimed({}, caller({ user: 'ann@acme.example', userId: 'u-1' })),
        await claimed({}, caller({ tenant: 'other', user: 'ann@acme.example', userId: 'u-1' })),
        await claimed({}, caller({ user: 'ann@acme.example', userId: 'u-2' })),
        await claimed({}, caller({ userId: 'u-1', clientId: 'c-1' })),
        await claimed({}, caller({ userId: 'u-1', clientId: 'c-2' })),
        await claimed({ server: 'more' }),
        await claimed({ tool: 'more' }),
        await claimed({ request: { idempotencyKey: 'more' } }),
        await claimed({ protocol: 'mcp', request: { round: '{}' } }),
        await claimed({}, undefined, { namespace: 'more' }),
      ].map(({ key }) => key)
      expect(new Set(keys).size).to.equal(keys.length)
    })

    it('stays the same when the address of a person changes, and for other arguments and versions', async () => {
      const ann = await claimed({}, caller({ user: 'ann@acme.example', userId: 'u-1' }))
      const renamed = await claimed({}, caller({ user: 'ann.b@acme.example', userId: 'u-1' }))
      const other = await claimed(
        { args: { a: 1 }, version: '2.0.0' },
        caller({ user: 'ann', userId: 'u-1' }),
      )
      expect([renamed.key, other.key]).to.deep.equal([ann.key, ann.key])
      expect(renamed.fingerprint).to.equal(ann.fingerprint)
      expect(other.fingerprint).to.not.equal(ann.fingerprint)
    })

    it('takes the version for a part of the request where the caller has chosen it', async () => {
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
      it(`is remembered for ${ttlMs / 1000} s where ttlSec is ${ttlSec}`, async () => {
        expect((await claimed({}, undefined, { ttlSec })).ttlMs).to.equal(ttlMs)
        const context = fakeContext('/')
        createStage(dedupePlugin, { ttlSec }, context)
        expect(context.warnings).to.have.lengthOf(warned)
      })
    }
  })

  it('explains itself without claiming anything', async () => {
    const running = await pipeline({ ttlSec: 60, duplicatePolicy: 'reject' })
    const said: string[] = []
    const { stage } = running.stages[0]!
    const explain = (call: Call) =>
      stage.explain?.(
        call,
        async () => answered(),
        (line) => said.push(line),
      )
    await explain(keyed())
    await explain(keyed({ request: { kind: 'resource' } }))
    expect(said).to.deep.equal([
      'a call with an idempotency key runs once; a duplicate within 60 s is refused',
      'keys are kept by the bound DedupeStore; an explanation claims none',
      'only calls of tools are looked at',
    ])
    expect(store.asked).to.deep.equal([])
  })

  it('does not close a store that it was handed', async () => {
    let closed = 0
    Object.assign(store, { close: async () => closed++ })
    const running = await pipeline()
    await running.stop()
    expect(closed).to.equal(0)
  })
})
