// Calls that are read from their records, for `svc policy replay`: a record leaves out much of what stages read.
import { brand, hasBrand } from './contract.js'
import { slot } from './slot.js'

/** Values of a call that rules keep for its record. */
export interface KeptValues {
  /** By path, such as `args.amount`. */
  readonly values: Readonly<Record<string, string | number | boolean | null>>
  /** Paths without a value in the call. */
  readonly absent?: readonly string[]
  /** Paths whose values are not single ones, or are too long. */
  readonly withheld?: readonly string[]
}

/**
 * Thrown where a stage reads what the record of the call leaves out. A stage that can still judge catches it, and reports
 * what it cannot decide as a finding that is `possible`. Without a stack trace, as replays throw it for each call.
 */
export class Unrecorded {
  readonly [brand] = 'Unrecorded'

  /** The name of the missing value, for the operator: `args.amount`. */
  constructor(readonly facts: readonly string[]) {}
}

/** Whether `value` is an `Unrecorded`, of any copy of this package. */
export function isUnrecorded(value: unknown): value is Unrecorded {
  return hasBrand(value, 'Unrecorded')
}

/** That a finding about a recorded call may apply: its stage read what was not recorded. */
export interface PossibleFinding {
  readonly missing: readonly string[]
  /**
   * SHA-256, hex, of the configuration that decides whether it applies. What another policy with the same one found about
   * the call holds for this policy too.
   */
  readonly basis: string
  /** That the stage itself may refuse the call, in observe mode too. */
  readonly isRefusal?: true
  /** Taken not to apply if it is not known what was configured when the call was recorded. */
  readonly isPresumedAbsent?: true
}

/** The facts that the record of a call states beyond its request and its caller. */
export interface RecordedCall {
  /** Undefined if the record does not have the values. */
  readonly kept: KeptValues | undefined
  /** Nothing is known but the names: no time, and no response of the person at the client. */
  readonly isNamedOnly?: true
}

/** Set for a call that is read from its record, or of which only the names are known: the members of its request and its headers may throw `Unrecorded`. */
export const recordedCall = slot<RecordedCall>('recordedCall')
