// A thread that scans chunks of logs.

import { workerData } from 'node:worker_threads'
import { Calls } from '@svc/core/thread'
import { whenFastest } from '../../keys/ed25519.js'
import { KeyHistory } from '../../tree/key-history.js'
import { type Chunk, scanChunks } from './scan-chunk.js'
import type { ScanWorkerData } from './scan-pool.js'

const { spans, logId } = workerData as ScanWorkerData
const context = { keys: KeyHistory.of(spans), logId }
void whenFastest().then(() => Calls.ofThread({ scan: (chunks: Chunk[]) => scanChunks(chunks, context) }))
