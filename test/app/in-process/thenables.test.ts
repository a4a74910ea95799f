// biome-ignore-all lint/suspicious/noThenProperty: the test is about thenables.
// Functions whose result is a promise of another library or realm.
import { createContext, runInContext } from 'node:vm'
import { expect } from 'chai'
import { governed } from 'svc-sdk'
import { FunctionsRig } from './rig.js'

type Settle = (value: unknown) => void
type Then = (resolve: Settle, reject: Settle) => unknown

const pay = { server: 'billing', name: 'pay' }
const paid = { paid: 10 }
const broken = new Error('the bank is closed')

/** A promise as Bluebird has it: a class with its own `then`, which calls back later. */
class OtherPromise {
  readonly #outcome: readonly [isFailed: boolean, value: unknown]

  constructor(isFailed: boolean, value: unknown) {
    this.#outcome = [isFailed, value]
  }

  then(resolve: Settle, reject: Settle): OtherPromise {
    const [isFailed, value] = this.#outcome
    setImmediate(() => (isFailed ? reject(value) : resolve(value)))
    return this
  }
}

const realm = createContext({ paid, broken, setImmediate })
const inRealm = (code: string): PromiseLike<unknown> => runInContext(code, realm) as PromiseLike<unknown>

/** Counts how often `then` is read and called: a query builder runs the query with each call. */
function lazyThenable(then: Then) {
  const counts = { read: 0, called: 0 }
  const query = {
    get then(): Then {
      counts.read++
      return (resolve, reject) => {
        counts.called++
        return then(resolve, reject)
      }
    },
  }
  return { counts, query: query as unknown as PromiseLike<unknown> }
}

const succeeding: Record<string, () => unknown> = {
  'from a library': () => new OtherPromise(false, paid),
  'from another realm': () => inRealm('Promise.resolve(paid)'),
  'that is a function': () => Object.assign(() => undefined, { then: (resolve: Settle) => resolve(paid) }),
  'that resolves to a promise from a library': () => Promise.resolve(new OtherPromise(false, paid)),
  'whose work begins with then': () => lazyThenable((resolve) => setImmediate(resolve, paid)).query,
}

const failing: Record<string, () => unknown> = {
  'from a library': () => new OtherPromise(true, broken),
  'from another realm': () => inRealm('Promise.reject(broken)'),
  'whose work begins with then': () => lazyThenable((_, reject) => setImmediate(reject, broken)).query,
  'whose then throws': () =>
    lazyThenable(() => {
      throw broken
    }).query,
  'whose then cannot be read': () => ({
    get then(): never {
      throw broken
    },
  }),
}

describe('the promise of a governed function', () => {
  for (const [which, result] of Object.entries(succeeding)) {
    it(`${which} gives its value to the caller, the record and the repeat`, async () => {
      await using rig = new FunctionsRig({ dedupe: { enabled: true } })
      let runs = 0
      const run = governed<object, unknown>(rig.pipeline, pay, () => {
        runs++
        return result() as PromiseLike<unknown>
      })
      const key = { idempotencyKey: 'k1' }
      expect(await run({}, key)).to.deep.equal(paid)
      expect(await run({}, key)).to.deep.equal(paid)
      expect(runs).to.equal(1)
      const [first, repeat] = rig.records()
      expect(first).to.include({ status: 'ok', dedupe: 'first' })
      expect(repeat).to.include({ status: 'ok', dedupe: 'replay', output_sha256: first?.output_sha256 })
    })
  }

  for (const [which, result] of Object.entries(failing)) {
    it(`${which}: its failure is recorded`, async () => {
      await using rig = new FunctionsRig()
      const run = governed<object, unknown>(rig.pipeline, pay, () => result() as PromiseLike<unknown>)
      const error = await run({}).catch((thrown: unknown) => thrown)
      expect(error).to.equal(broken)
      expect(rig.records()[0]).to.include({ status: 'error', error: 'UPSTREAM' })
    })
  }

  it('ends at the time limit of the call, even if a library made it', async () => {
    await using rig = new FunctionsRig({ security: { limits: { max_duration_ms: 20 } } })
    const never = { then: () => undefined } as unknown as PromiseLike<unknown>
    const run = governed<object, unknown>(rig.pipeline, pay, () => never)
    expect(await run({}).catch((thrown: unknown) => thrown)).to.have.property('code', 'DURATION_EXCEEDED')
    expect(rig.records()[0]).to.include({ error: 'DURATION_EXCEEDED' })
  })

  it('has its then property read once and called once', async () => {
    await using rig = new FunctionsRig()
    const { counts, query } = lazyThenable((resolve) => resolve(paid))
    await governed<object, unknown>(rig.pipeline, pay, () => query)({})
    expect(counts).to.deep.equal({ read: 1, called: 1 })
  })
})
