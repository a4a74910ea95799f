// Slots: typed values on a call that one stage sets and later stages read. At run time a slot is an array index.
import { contractSymbol } from './contract.js'

export interface Slot<T> {
  readonly name: string
  /** The index on a call, the same for one name in every copy of this package. */
  readonly index: number
  /** Several stages may fill it; the first value stays. */
  readonly isShared: boolean
  /** Exists only for the type. */
  readonly type?: T
}

/** The slots of the process by name, shared by all copies of this package. */
function sharedTable(): Map<string, number> {
  const key = contractSymbol('slots', 'table')
  const shared: unknown = Reflect.get(globalThis, key)
  if (shared instanceof Map) return shared
  const table = new Map<string, number>()
  Reflect.set(globalThis, key, table)
  return table
}

const table = sharedTable()

/** The slots by name; a call has as many values. */
export const slots: ReadonlyMap<string, number> = table

/**
 * The slot of a name. One name is one slot: a plugin's private slots begin with its section (`quotas/usage`),
 * those without a prefix are the contract's. Call it at module level, so that the number of slots is fixed at load.
 */
export function slot<T>(name: string, { isShared = false } = {}): Slot<T> {
  const index = table.get(name) ?? table.size
  table.set(name, index)
  return { name, index, isShared }
}
