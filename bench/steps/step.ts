/** A part of a call and its price. */
export interface Step {
  readonly name: string
  /** Microseconds of CPU time a call. */
  readonly micros: number
}
