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

/**
 * The slot of a name. One name is one slot: a plugin's private slots begin with its section (`quotas/usage`),
 * those without a prefix are the contract's. Call it at module level, so that the number of slots is fixed at load.
 */
export function slot<T>(name: string, { isShared = false } = {}): Slot<T> {
  const index = table.get(name) ?? table.size
  table.set(name, index)
  return { name, index, isShared }
}

/** The slots of one call. Each is set once, unless it is shared; an undefined value leaves it empty. */
export class SlotValues {
  #values: unknown[] = new Array(table.size)

  get<T>({ index }: Slot<T>): T | undefined {
    return this.#values[index] as T | undefined
  }

  set<T>({ index, name, isShared }: Slot<T>, value: T): void {
    if (this.#values[index] !== undefined && isShared) return
    if (this.#values[index] !== undefined) throw new Error(`slot ${name} is already filled`)
    this.#values[index] = value
  }
}
