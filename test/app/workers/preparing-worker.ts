// A worker whose policies are names. The stages of one start when the test announces its name as that of a refused policy;
// the metrics are what has happened.
import { runWorker } from 'svc-sdk/internal/workers/worker'
import { signalled } from '../../support/signalled.js'
import { minimalGateway } from './minimal-gateway.js'

const events: string[] = []
const held = new Map<string, () => void>()

runWorker(async () =>
  minimalGateway(
    {
      prepareReload: async (policy) => {
        const name = String(policy)
        events.push(`${name} starts`)
        const { happened, resolve } = signalled()
        held.set(name, resolve)
        await happened
        return {
          record: async () => ({ policy_sha256: name, previous_sha256: null, by: 'test' }),
          commit: async () => void events.push(`${name} is in force`),
          discard: async () => void events.push(`${name} stops`),
        }
      },
      announceRefusal: async ({ message }) => held.get(message)?.(),
    },
    {
      metrics: async () => events.join(', '),
      close: async () => void events.push('the gateway closes'),
    },
  ),
)
