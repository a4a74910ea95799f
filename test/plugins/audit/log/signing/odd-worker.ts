// A signing thread that fails at a moment chosen by the test.

import { parentPort, workerData } from 'node:worker_threads'
import { Calls } from '@svc/core/thread'
import { SharedMemory, SIGNING_PROBE } from '@svc/plugin-audit/internal/log/signing/shared-batch'
import type { SigningHost, SigningWorkerData } from '@svc/plugin-audit/internal/log/signing/signing-thread'
import { LocalDevSigner } from '@svc/plugin-audit/log'

export interface OddWorkerData extends SigningWorkerData {
  /** `dies`, `throws` and `hangs` do so in the middle of a signature, after `after` good ones. */
  readonly how: 'dies' | 'throws' | 'hangs' | 'fails-to-start' | 'has-another-key'
  readonly after: number
}

const { memory, size, seed, how, after } = workerData as OddWorkerData
if (how === 'fails-to-start') throw new Error('no memory for a thread')
const signer = LocalDevSigner.fromSeed(how === 'has-another-key' ? new Uint8Array(32).fill(9) : seed)
Calls.ofThread<SigningHost>().tell('begin', signer.sign(SIGNING_PROBE))

let signed = 0
new SharedMemory(memory, size).serve((message) => {
  if (signed++ < after) return signer.sign(message)
  if (how === 'dies') process.exit(3)
  if (how === 'throws') throw new Error('the thread has an error')
  parentPort?.postMessage('hangs')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  return new Uint8Array(64)
})
