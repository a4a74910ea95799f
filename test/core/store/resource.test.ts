import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { QuotaAdapter } from '@svc/core'
import { type StoreOptions, StoreResource } from '@svc/core/store'
import { expect } from 'chai'
import sinon, { type SinonFakeTimers } from 'sinon'
import { FakeClock } from 'svc-sdk/testing'
import { rejectionOf } from '../../support/rejection.js'
import { StageRig } from '../../support/stage-rig.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const { signal } = new AbortController()
const NOON = Date.UTC(2026, 5, 15, 12)

/** A store that responds, fails, or delays its responses until released. */
class FakeStore implements QuotaAdapter {
  mode: 'up' | 'down' | 'hanging' = 'up'
  readonly calls: string[] = []
  #pending: (() => void)[] = []

  incrDaily(_tenant: string, tool: string, limit: number) {
    return this.#response(`incrDaily ${tool} ${limit}`, { count: 1, resetAt: NOON })
  }
  takeToken(_tenant: string, tool: string, rate: number) {
    return this.#response(`takeToken ${tool} ${rate}`, { tokens: 0, resetAt: NOON })
  }
  async refundDaily(_tenant: string, tool: string): Promise<void> {
    await this.#response(`refundDaily ${tool}`, undefined)
  }
  async connect(): Promise<void> {
    this.calls.push('connect')
    if (this.mode === 'down') throw new Error('connection refused')
  }
  ready(): string | undefined {
    return this.mode === 'down' ? 'no connection' : undefined
  }
  async close(): Promise<void> {
    this.calls.push('close')
  }
  /** Gives the responses that it has kept. */
  recover(): void {
    this.mode = 'up'
    for (const response of this.#pending.splice(0)) response()
  }

  async #response<T>(call: string, result: T): Promise<T> {
    this.calls.push(call)
    if (this.mode === 'down') throw new Error('connection refused')
    if (this.mode === 'hanging') await new Promise<void>((resolve) => this.#pending.push(resolve))
    return result
  }
}

describe('StoreResource', () => {
  let store: FakeStore
  let rig: StageRig
  let opened: number

  beforeEach(() => {
    store = new FakeStore()
    opened = 0
    rig = new StageRig({ baseDir: '/policy', stateDir: '/state' }, new FakeClock(NOON))
  })

  function resource(options: Partial<StoreOptions<QuotaAdapter>> = {}): StoreResource<QuotaAdapter> {
    const open = () => {
      opened++
      return store
    }
    return new StoreResource<QuotaAdapter>(
      {
        name: 'test store',
        section: 'quotas',
        kind: 'memory',
        layer: () => store,
        instance: { name: 'mine', open },
        settings: { timeoutMs: 200 },
        operations: ['takeToken', 'incrDaily', 'refundDaily'],
        undo: { incrDaily: (own, _response, tenant, tool) => own.refundDaily?.(tenant, tool) },
        whileDown: 'calls are refused',
        ...options,
      },
      rig.context,
    )
  }

  async function started(options: Partial<StoreOptions<QuotaAdapter>> = {}) {
    const made = resource(options)
    await made.start(signal)
    return made
  }

  describe('choice', () => {
    it('opens nothing before the start, and has no running store then', () => {
      const made = resource()
      expect(opened).to.equal(0)
      expect(() => made.running).to.throw('the test store is not open')
      expect(made.health()?.reason).to.equal('the test store is not open')
    })

    it('opens a store on disk below the state, or in the directory of the policy', async () => {
      const dir = new TemporaryDir()
      rig = new StageRig({ baseDir: join(dir.path, 'policy'), stateDir: join(dir.path, 'state') })
      const layer: StoreOptions<QuotaAdapter>['layer'] = (disk) =>
        Object.assign(store, { close: async () => disk.close?.() })
      const made = [
        await started({ kind: 'lmdb', instance: undefined, layer }),
        await started({
          kind: 'lmdb',
          instance: undefined,
          layer,
          settings: { timeoutMs: 200, dir: 'here' },
        }),
      ]
      for (const place of ['state/quotas', 'policy/here'])
        expect(existsSync(join(dir.path, place, 'data.mdb'))).to.equal(true)
      for (const one of made) await one.stop()
      dir[Symbol.dispose]()
    })

    it('prefers a store from code, and does not close it', async () => {
      const made = await started({ instance: { name: 'mine', store } })
      expect(made.source).to.equal('mine')
      expect((await made.running.incrDaily('t', 'a', 1)).count).to.equal(1)
      await made.stop()
      expect(opened).to.equal(0)
      expect(store.calls).to.deep.equal(['connect', 'incrDaily a 1'])
      expect(rig.context.resources.size).to.equal(0)
    })
  })

  describe('life cycle', () => {
    it('survives a reload, and is closed by the last stop', async () => {
      const [old, next] = [await started(), await started()]
      await old.stop()
      await old.stop()
      expect(opened).to.equal(1)
      expect(store.calls).to.not.include('close')
      expect((await next.running.incrDaily('t', 'a', 1)).count).to.equal(1)
      await next.stop()
      expect(store.calls.at(-1)).to.equal('close')
      expect(rig.context.resources.size).to.equal(0)
    })

    it('is another store for any other configuration', async () => {
      const settings = { timeoutMs: 200, redisUrl: 'redis://h' }
      const layer = () => {
        opened++
        return store
      }
      const redis = { kind: 'redis' as const, instance: undefined, layer, settings }
      await started()
      await started(redis)
      await started({ ...redis, settings: { ...settings, namespace: 'n' } })
      await started({ ...redis, settings: { ...settings, redis: { sentinel: 'main' } } })
      await started({ ...redis, settings: { ...settings, redisUrl: 'redis://:secret@h' } })
      expect(opened).to.equal(5)
    })

    it('is the same store on disk with another deadline', async () => {
      await started()
      await started({ settings: { timeoutMs: 100 } })
      expect(opened).to.equal(1)
    })

    it('fails to start if it cannot connect or open, and releases everything', async () => {
      store.mode = 'down'
      expect(await rejectionOf(resource().start(signal))).to.have.property('message', 'connection refused')
      expect(store.calls).to.deep.equal(['connect', 'close'])
      const broken = () => {
        throw new Error('no directory')
      }
      const made = resource({ instance: { name: 'mine', open: broken } })
      expect(await rejectionOf(made.start(signal))).to.have.property('message', 'no directory')
      expect(made.health()?.reason).to.equal('the test store is not open')
      expect(rig.context.resources.size).to.equal(0)
    })

    it('starts with a warning if it is optional', async () => {
      store.mode = 'down'
      const made = await started({ isOptional: true })
      expect(rig.context.warnings).to.deep.equal([
        'quotas: connection refused; the gateway keeps trying to connect',
      ])
      store.mode = 'up'
      expect((await made.running.incrDaily('t', 'a', 1)).count).to.equal(1)
    })

    it('keeps attached resources across reloads, and closes them before the store', async () => {
      const make = () => ({ value: {}, close: () => void store.calls.push('close attached') })
      const [old, next] = [await started(), await started()]
      const attached = old.attach('things', make)
      expect(next.attach('things', make)).to.equal(attached)
      expect(next.attach('other things', make)).to.not.equal(attached)
      await old.stop()
      expect(store.calls).to.not.include('close attached')
      await next.stop()
      expect(store.calls.slice(-3)).to.deep.equal(['close attached', 'close attached', 'close'])
    })
  })

  describe('operations', () => {
    let timers: SinonFakeTimers

    beforeEach(() => {
      timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    })

    afterEach(() => timers.restore())

    async function pass(ms: number): Promise<void> {
      rig.clock.advance(ms)
      await timers.tickAsync(ms)
    }

    it('reject with one error for every failure, counted, and logged every ten seconds', async () => {
      const { running } = await started()
      store.mode = 'down'
      for (let call = 0; call < 3; call++) {
        const error = await rejectionOf(running.takeToken('t', 'a', 1))
        expect(error).to.include({ code: 'STORE_UNAVAILABLE', message: 'The test store is not available.' })
        expect(error).to.have.nested.property('cause.message', 'connection refused')
      }
      await pass(10_000)
      await rejectionOf(running.incrDaily('t', 'a', 1))
      expect(rig.meter.counted).to.deep.equal(Array(4).fill('svc_test_store_failures_total'))
      const message = 'the test store fails: calls are refused'
      expect(rig.log.lines).to.deep.equal([
        { level: 'warn', fields: { error: 'connection refused', failures: 1 }, message },
        { level: 'warn', fields: { error: 'connection refused', failures: 3 }, message },
      ])
      store.mode = 'up'
      expect(await running.incrDaily('t', 'a', 1)).to.deep.equal({ count: 1, resetAt: NOON })
    })

    it('reject at the deadline, then one at a time is tried and the others fail at once', async () => {
      const made = await started()
      store.mode = 'hanging'
      const first = rejectionOf(made.running.takeToken('t', 'a', 1))
      await pass(200)
      expect(await first).to.have.nested.property(
        'cause.message',
        'the operation of the test store had not ended after 200 ms',
      )
      expect(made.health()?.reason).to.equal('the test store does not respond')
      const waiting = rejectionOf(made.running.takeToken('t', 'b', 1))
      const refused = await Promise.all(
        ['c', 'd'].map((tool) => rejectionOf(made.running.takeToken('t', tool, 1))),
      )
      for (const error of refused) {
        expect(error).to.have.nested.property('cause.message', 'the test store does not respond')
      }
      expect(store.calls).to.deep.equal(['connect', 'takeToken a 1', 'takeToken b 1'])
      await pass(200)
      expect(await waiting).to.have.property('code', 'STORE_UNAVAILABLE')
    })

    it('undo a late result, and recover with any response', async () => {
      const made = await started()
      store.mode = 'hanging'
      const late = rejectionOf(made.running.incrDaily('t', 'late', 5))
      await pass(200)
      await late
      store.recover()
      await pass(0)
      expect(store.calls.slice(1)).to.deep.equal(['incrDaily late 5', 'refundDaily late'])
      expect(made.health()?.reason).to.equal(undefined)
      expect((await made.running.takeToken('t', 'a', 1)).tokens).to.equal(0)
    })

    it('ignore an undo that fails', async () => {
      store.refundDaily = () => Promise.reject(new Error('gone'))
      const { running } = await started()
      store.mode = 'hanging'
      const late = rejectionOf(running.incrDaily('t', 'late', 5))
      await pass(200)
      await late
      store.recover()
      await pass(0)
      expect(rig.meter.counted).to.have.length(2)
      expect((await running.takeToken('t', 'a', 1)).tokens).to.equal(0)
    })

    it('have no deadline for a store in this process', async () => {
      const inProcess = Object.assign(store, { inProcess: true })
      const { running } = await started({ instance: { name: 'mine', store: inProcess } })
      const response = running.incrDaily('t', 'a', 1)
      expect(timers.countTimers()).to.equal(0)
      expect((await response).count).to.equal(1)
    })

    it('omit what the store does not have, and forward its ready and warning', async () => {
      const { incrDaily, takeToken } = store
      const less: QuotaAdapter = { incrDaily, takeToken, ready: () => 'busy', warning: () => 'nearly full' }
      const made = await started({ instance: { name: 'mine', store: less } })
      expect(made.running.refundDaily).to.equal(undefined)
      expect(made.health()?.reason).to.equal('busy')
      expect(made.running.warning?.()).to.equal('nearly full')
    })
  })
})
