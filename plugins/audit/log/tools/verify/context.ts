// The context that the parts of one verification share.

import type { KeyHistory } from '../../tree/key-history.js'
import type { Findings } from './findings.js'
import type { Inventory } from './inventory.js'
import type { JournalFacts } from './journal-facts.js'
import type { ScanPool } from './scan-pool.js'

export interface Context extends Inventory {
  readonly dir: string
  readonly keys: KeyHistory
  /** Undefined if there is no journal. */
  readonly facts: JournalFacts | undefined
  readonly pool: ScanPool
  /** Whether each record is checked by itself. */
  readonly judged: boolean
  readonly findings: Findings
  readonly onBytes: (bytes: number) => void
}
