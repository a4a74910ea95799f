// A worker that prepares a policy until it is told the name of the policy as that of a refusal. Its metrics are what it
// has done; it ends with an error if it has started a policy, and not stopped it.
import { once } from 'node:events'
import { runWorker } from 'svc-sdk/internal/workers/worker'
import { keepingLogger } from '../../support/logger.js'

const done: string[] = []
const started = new Set<unknown>()
const releases = new EventTarget()

runWorker(async () => ({
  gateway: {
    prepareReload: async (policy) => {
      done.push(`starts ${policy}`)
      started.add(policy)
      await once(releases, String(policy))
      return {
        record: () => Promise.reject(new Error('this worker records nothing')),
        commit: async () => undefined,
        discard: async () => {
          done.push(`stops ${policy}`)
          started.delete(policy)
        },
      }
    },
    announceRefusal: async (error) => {
      releases.dispatchEvent(new Event(error.message))
    },
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
  metrics: async () => done.join(', '),
  close: async () => {
    if (started.size > 0) throw new Error('a policy is not stopped')
  },
}))
