// The thread that signs what the writer has put into the memory they share.

import { parentPort, workerData } from 'node:worker_threads'
import { whenBest } from '../keys/ed25519.js'
import { SharedMemory, SIGNING_PROBE } from './shared-memory.js'
import type { SigningWorkerData } from './signing-thread.js'

const { memory, size, seed } = workerData as SigningWorkerData
const key = (await whenBest()).signingKey(seed)
// The only copy that this thread was given.
seed.fill(0)

const sign = (message: Uint8Array) => key.sign(message)
const shared = new SharedMemory(memory, size)
// The writer lets the thread begin once it has seen that it signs rightly what lies in shared memory.
const probe = new Uint8Array(new SharedArrayBuffer(SIGNING_PROBE.length))
probe.set(SIGNING_PROBE)
parentPort?.postMessage(sign(probe))
shared.serve(sign)
