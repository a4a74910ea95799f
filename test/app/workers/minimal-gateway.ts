// The gateway of a worker that serves nothing, for tests of what the worker does with it.
import type { CreateWorkerGateway } from 'svc-sdk/internal/workers/worker'
import { keepingLogger } from '../../support/logger.js'

type MinimalGateway = Awaited<ReturnType<CreateWorkerGateway>>

const fail = async (): Promise<never> => {
  throw new Error('this worker fails')
}

/** Fails at whatever `own` does not have. */
export function minimalGateway(
  own: Partial<MinimalGateway['gateway']> = {},
  parts: Partial<MinimalGateway> = {},
): MinimalGateway {
  return {
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
      ...own,
    },
    logger: keepingLogger(),
    metrics: async () => '',
    close: async () => undefined,
    ...parts,
  }
}
