// A thread that scans chunks of logs.

import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '@svc/core/json'
import { systemCode } from '../../format/errors.js'
import { whenFastest } from '../../keys/ed25519.js'
import { ChunkScanner } from './chunk-scanner.js'
import type { Chunk } from './scan-chunk.js'
import type { ScanReply, ScanWorkerData } from './scan-pool.js'
import { TrustedKeys } from './trusted-keys.js'

const { spans, logId } = workerData as ScanWorkerData
const scanner = new ChunkScanner({ keys: new TrustedKeys(spans), logId })
await whenFastest()

parentPort?.on('message', (chunks: Chunk[]) => {
  parentPort?.postMessage(scan(chunks))
})

function scan(chunks: Chunk[]): ScanReply {
  try {
    return { results: scanner.scan(chunks) }
  } catch (error) {
    return { error: messageOf(error), code: systemCode(error) }
  }
}
