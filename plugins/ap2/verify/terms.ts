// What a mandate bounds: the values that the arguments of its call must have.

/** Money in minor units, which are exact. */
export interface Terms {
  readonly total?: number
  readonly currency?: string
  readonly merchant?: string
  /** Item id to quantity. */
  readonly items?: ReadonlyMap<string, number>
  readonly instrument?: string
  readonly pisp?: string
  readonly executionDate?: string
}

export type TermName = keyof Terms
