// Stores with one mistake each, which the model has to find.
import type { Snapshot, Space, Taken, Write } from '@svc/core'
import type { Store } from './run.js'

/** How often a fault shows: at each so many operations. */
const EVERY = 7

type Mistake = (store: Store, isNow: () => boolean) => Partial<Store>

const mistakes = {
  /** A client repeats a command whose response it has lost, and reports the second response. */
  'lost reply': (store, isNow) => ({
    async commit(space, writes) {
      const first = await store.commit(space, writes)
      return isNow() && first.isDone ? store.commit(space, writes) : first
    },
    async take(space, limits, options) {
      const first = await store.take(space, limits, options)
      return isNow() && first.isTaken ? store.take(space, limits, options) : first
    },
  }),
  /** Two clients that expect the same version both succeed. */
  'double commit': (store, isNow) => ({
    commit: (space, writes) =>
      store.commit(space, isNow() ? writes.map(({ expect: _, ...write }) => write) : writes),
    take(space, limits, options) {
      const isTwice = isNow()
      const more = limits.map((limit) => (isTwice ? { ...limit, max: limit.max + 1 } : limit))
      return store.take(space, more, options)
    },
  }),
  /** Keys of one space are put where another space has its own. */
  'wrong slot': (store, isNow) => ({
    commit: (space, writes) => store.commit(isNow() ? { ...space, name: `${space.name}-2` } : space, writes),
    take: (space, limits, options) =>
      store.take(isNow() ? { ...space, name: `${space.name}-2` } : space, limits, options),
  }),
  'missing expiry': (store, isNow) => ({
    commit: (space, writes) =>
      store.commit(space, isNow() ? writes.map((write): Write => ({ ...write, ttlMs: undefined })) : writes),
    take(space, limits, { hold, ...options } = {}) {
      const ms = isNow() ? 1e12 : hold?.ms
      return store.take(space, limits, { ...options, hold: hold && { ...hold, ms: ms ?? hold.ms } })
    },
  }),
  /** A replica that is behind responds. */
  'stale read': (store, isNow) => {
    const seen = new Map<string, Snapshot>()
    let taken: Taken | undefined
    return {
      async take(space, limits, options) {
        const known = taken
        taken = await store.take(space, limits, options)
        return known !== undefined && isNow() ? known : taken
      },
      async get(space: Space, keys: readonly string[], options) {
        const known = seen.get(space.name)
        if (known !== undefined && isNow()) return known
        const snapshot = await store.get(space, keys, options)
        seen.set(space.name, snapshot)
        return snapshot
      },
    }
  },
  /** A part of the writes is carried out, or a part of what is taken stays taken. */
  'torn commit': (store, isNow) => ({
    commit: (space, writes) => store.commit(space, isNow() ? writes.slice(0, 1) : writes),
    async take(space, limits, options) {
      if (!isNow() || limits.length < 2) return store.take(space, limits, options)
      const [first, second] = [limits.slice(0, 1), limits.slice(1)]
      const taken = await store.take(space, first, options)
      if (!taken.isTaken) return taken
      const others = await store.take(space, second, options)
      return { ...others, uses: [...taken.uses, ...others.uses] }
    },
  }),
} satisfies Record<string, Mistake>

export type FaultKind = keyof typeof mistakes

export const faultKinds = Object.keys(mistakes) as readonly FaultKind[]

export function withFault(store: Store, kind: FaultKind): Store {
  let operations = 0
  const isNow = () => ++operations % EVERY === 0
  const whole: Store = {
    take: (...args) => store.take(...args),
    settle: (...args) => store.settle(...args),
    get: (...args) => store.get(...args),
    commit: (...args) => store.commit(...args),
    scan: (...args) => store.scan(...args),
    watch: (...args) => store.watch(...args),
  }
  return { ...whole, ...mistakes[kind](store, isNow) }
}
