// The experiments, in the order in which they are run and documented.

import { dyingWriter } from './dying-writer.js'
import type { Experiment } from './experiment.js'
import { failedSync } from './failed-sync.js'
import { fullDisk } from './full-disk.js'
import { killedWriter } from './killed-writer.js'
import { lateSigner } from './late-signer.js'
import { manipulatedLog } from './manipulated-log.js'
import { midnight } from './midnight.js'

export const experiments: readonly Experiment[] = [
  killedWriter,
  dyingWriter,
  fullDisk,
  failedSync,
  midnight,
  lateSigner,
  manipulatedLog,
]
