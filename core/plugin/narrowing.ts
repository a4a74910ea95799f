// The least that a section would have to allow, by the calls that it allowed: for `svc policy suggest`.
import type { Call } from '../call/call.js'

export interface NarrowingSettings {
  /** How many times the observed rates limits allow. */
  readonly headroom: number
}

/** The replacement of an item of a list. */
export interface ItemEdit {
  /** The items in its place; empty if it is removed. */
  readonly by: readonly string[]
  /** One line above them. */
  readonly comment?: string
}

/** A change of the text of a policy, at a path from its root. */
export type PolicyEdit = { readonly path: readonly (string | number)[] } & (
  | { readonly items: ReadonlyMap<number, ItemEdit> }
  | { readonly value: object }
)

/** Learns from calls that the policy allows. Its edits only narrow the policy, and keep what was learned. */
export interface Narrowing {
  /**
   * A call that ran through the stages. `isRecent` is false for one before the time to learn from, of which only the time
   * of last use counts.
   */
  add(call: Call, isRecent: boolean): void
  edits(settings: NarrowingSettings): readonly PolicyEdit[]
}
