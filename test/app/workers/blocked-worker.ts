// A worker whose event loop stops as soon as it has started.
import { runWorker } from 'svc-sdk/internal/workers/worker'
import { keepingLogger } from '../../support/logger.js'

runWorker(async () => {
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))
  return {
    logger: keepingLogger(),
    reloadFile: async () => undefined,
    metrics: async () => '',
    close: async () => undefined,
  }
})
