// One manipulation of a log, and the expected result of verification.

import type { LogBuilder } from '../../../../../../support/audit-log.js'
import type { BuildOptions, Files } from './fixture.js'

export interface VerifierOptions {
  /** A file in the log's directory that is given as `--against`. */
  readonly against?: string
  readonly origin?: string
  readonly allowUnsealed?: boolean
  /** Trusts every key of the log, not the first one only. */
  readonly allKeys?: boolean
  /** The leaves for which the first key is trusted, as its holder kept them elsewhere: the first, and the first after. */
  readonly leaves?: readonly [number, number]
  readonly agents?: boolean
}

export interface Manipulation {
  readonly title: string
  /** Makes the log in another way than usual, as its writer or the holder of its key. */
  readonly build?: BuildOptions
  /** Changes the files. `log` can sign with the log's keys. */
  readonly tamper?: (files: Files, log: LogBuilder) => void
  readonly options?: VerifierOptions
  /** The findings, as `file:line: kind`. Empty: intact. */
  readonly found?: readonly string[]
  /** Why nothing can be found. */
  readonly undetectable?: string
  /** Exit 2, and words of the reason. */
  readonly cannotBeJudged?: RegExp
}
