// The signing thread: signs the messages in the memory shared with the writer.

import { workerData } from 'node:worker_threads'
import { Calls } from '@svc/core/thread'
import { whenFastest } from '../keys/ed25519.js'
import { SharedMemory, SIGNING_PROBE } from './shared-batch.js'
import type { SigningHost, SigningWorkerData } from './signing-thread.js'

const { memory, size, seed } = workerData as SigningWorkerData
void whenFastest().then((ed25519) => {
  const key = ed25519.signingKey(seed)
  // This is the only copy in this thread.
  seed.fill(0)

  const sign = (message: Uint8Array) => key.sign(message)
  const shared = new SharedMemory(memory, size)
  // The writer starts the thread after it has verified a signature made in shared memory.
  const probe = new Uint8Array(new SharedArrayBuffer(SIGNING_PROBE.length))
  probe.set(SIGNING_PROBE)
  Calls.ofThread<SigningHost>().tell('begin', sign(probe))
  shared.serve(sign)
})
