// Stores with one mistake each, which the model has to find.
import type { KeyValueStore, Snapshot, Space, Write } from '@svc/core'

/** How often a fault shows: at each so many operations. */
const EVERY = 7

type Mistake = (store: KeyValueStore, isNow: () => boolean) => Partial<KeyValueStore>

const mistakes = {
  /** A client repeats a command whose response it has lost, and reports the second response. */
  'lost reply': (store, isNow) => ({
    async commit(space, writes) {
      const first = await store.commit(space, writes)
      return isNow() && first.isDone ? store.commit(space, writes) : first
    },
  }),
  /** Two clients that expect the same version both succeed. */
  'double commit': (store, isNow) => ({
    commit: (space, writes) =>
      store.commit(space, isNow() ? writes.map(({ expect: _, ...write }) => write) : writes),
  }),
  /** Keys of one space are put where another space has its own. */
  'wrong slot': (store, isNow) => ({
    commit: (space, writes) => store.commit(isNow() ? { ...space, name: `${space.name}-2` } : space, writes),
  }),
  'missing expiry': (store, isNow) => ({
    commit: (space, writes) =>
      store.commit(space, isNow() ? writes.map((write): Write => ({ ...write, ttlMs: undefined })) : writes),
  }),
  /** A replica that is behind responds. */
  'stale read': (store, isNow) => {
    const seen = new Map<string, Snapshot>()
    return {
      async get(space: Space, keys: readonly string[], options) {
        const known = seen.get(space.name)
        if (known !== undefined && isNow()) return known
        const snapshot = await store.get(space, keys, options)
        seen.set(space.name, snapshot)
        return snapshot
      },
    }
  },
  /** A part of the writes is carried out. */
  'torn commit': (store, isNow) => ({
    commit: (space, writes) => store.commit(space, isNow() ? writes.slice(0, 1) : writes),
  }),
} satisfies Record<string, Mistake>

export type FaultKind = keyof typeof mistakes

export const faultKinds = Object.keys(mistakes) as readonly FaultKind[]

export function withFault(store: KeyValueStore, kind: FaultKind): KeyValueStore {
  let operations = 0
  const isNow = () => ++operations % EVERY === 0
  const whole: KeyValueStore = {
    get: (...args) => store.get(...args),
    commit: (...args) => store.commit(...args),
    scan: (...args) => store.scan(...args),
  }
  return { ...whole, ...mistakes[kind](store, isNow) }
}
