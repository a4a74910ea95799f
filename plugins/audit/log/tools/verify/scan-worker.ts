// A thread that scans chunks of logs.

import { workerData } from 'node:worker_threads'
import { whenFastest } from '../../keys/ed25519.js'
import { Calls } from '../../thread/calls.js'
import { type Chunk, scanChunks } from './scan-chunk.js'
import type { ScanWorkerData } from './scan-pool.js'
import { TrustedKeys } from './trusted-keys.js'

const { spans, logId } = workerData as ScanWorkerData
const context = { keys: new TrustedKeys(spans), logId }
await whenFastest()

Calls.ofThread({ scan: (chunks: Chunk[]) => scanChunks(chunks, context) })
