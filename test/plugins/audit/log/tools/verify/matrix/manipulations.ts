// Every manipulation, for the tests of all verifiers.

import { checkpointManipulations } from './checkpoint-manipulations.js'
import { journalManipulations } from './journal-manipulations.js'
import type { Manipulation } from './manipulation.js'
import { partyManipulations } from './party-manipulations.js'
import { recordManipulations } from './record-manipulations.js'
import { sealingManipulations } from './sealing-manipulations.js'
import { summaryManipulations } from './summary-manipulations.js'
import { vouchingManipulations } from './vouching-manipulations.js'

export const manipulations: readonly Manipulation[] = [
  ...recordManipulations,
  ...sealingManipulations,
  ...journalManipulations,
  ...checkpointManipulations,
  ...vouchingManipulations,
  ...partyManipulations,
  ...summaryManipulations,
]
