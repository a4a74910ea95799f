// What a mandate bounds: the values that the arguments of its call must have.

/** Money in minor units, which are exact. */
export interface Terms {
  readonly total?: number
  readonly currency?: string
  readonly merchant?: string
  /** Item id to quantity. */
  readonly items?: ReadonlyMap<string, number>
  readonly instrument?: string
  /** Null: the mandate is for none. */
  readonly pisp?: string | null
  /** Null: at once. */
  readonly executionDate?: string | null
}

export type TermName = keyof Terms
