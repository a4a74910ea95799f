// A sealed range and what its bytes hold.

import type { PlacedRange } from '../../tree/seal-ranges.js'
import type { IndexedFailure } from './scan-chunk.js'

export interface ScannedRange extends PlacedRange {
  /** Lines of the day that were sealed before. */
  readonly lineBefore: number
  /** Whether the bytes are exactly its number of whole lines. */
  readonly whole: boolean
  /** Failures of its lines by themselves. */
  readonly failures: readonly IndexedFailure[]
}
