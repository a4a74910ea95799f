// A thread that scans chunks of logs.

import { closeSync, openSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '@svc/core/json'
import { ed25519, whenFastest } from '../keys/ed25519.js'
import { type Chunk, scanChunk } from './scan-chunk.js'
import type { ScanReply, ScanWorkerData } from './scan-pool.js'

const { keys } = workerData as ScanWorkerData
const byId = new Map(
  keys.map(({ keyId, publicKey }) => {
    const verify = (data: Uint8Array, sig: Uint8Array) => ed25519().verify(publicKey, data, sig)
    return [keyId, { keyId, publicKey, verify }]
  }),
)
await whenFastest()

parentPort?.on('message', (chunk: Chunk) => {
  const reply = scan(chunk)
  parentPort?.postMessage(
    reply,
    reply.result === undefined ? [] : [reply.result.leaves.buffer as ArrayBuffer],
  )
})

function scan(chunk: Chunk): ScanReply {
  try {
    const fd = openSync(chunk.path, 'r')
    try {
      return { result: scanChunk(fd, chunk, byId) }
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    return { error: messageOf(error) }
  }
}
