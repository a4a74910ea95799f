// A worker whose gateway can do nothing but start.
import { runWorker } from 'svc-sdk/internal/workers/worker'
import { keepingLogger } from '../../support/logger.js'

const fail = async (): Promise<never> => {
  throw new Error('this worker fails')
}

runWorker(async () => ({
  gateway: {
    prepareReload: fail,
    announceRefusal: fail,
    listeningOn: () => undefined,
    facts: {
      recentCall: () => null,
      limitsInUse: () => [],
      healthParts: () => [],
      stateOf: () => null,
      shadow: () => null,
    },
  },
  logger: keepingLogger(),
  metrics: async () => '',
  close: async () => undefined,
}))
