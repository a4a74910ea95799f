// Typed places on a call that one stage fills and later ones read. At run time a slot is an array index.

export interface Slot<T> {
  readonly name: string
  readonly index: number
  /** Carries the type only. */
  readonly type?: T
}

let count = 0

/** Makes a slot. Call it once, at module level: every call object has room for every slot made. */
export function slot<T>(name: string): Slot<T> {
  return { name, index: count++ }
}
