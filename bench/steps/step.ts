/** A part of a call and its cost. */
export interface Step {
  readonly name: string
  /** Microseconds of CPU time per call. */
  readonly micros: number
}
