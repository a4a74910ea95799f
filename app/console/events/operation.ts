// The operation whose response is the events of the gateway: calls, escalations, its state.
import { z } from 'zod'
import { AdminEventStream, operation } from '../../admin/operation.js'
import { logDirectoryOf } from '../calls/operations.js'
import { statusSchema } from '../status-operation.js'
import { callsSchema, changedEscalationsSchema, endSchema, sealedSchema } from './event-schemas.js'

export const eventsOperation = operation({
  method: 'GET',
  path: '/api/events',
  name: 'watch_events',
  summary: 'Sends events: calls as they are recorded, escalations that change, the state of the gateway.',
  access: 'reader',
  query: z.strictObject({
    calls: z.enum(['all', 'none'], { error: 'expected all or none' }).default('all'),
    after: z
      .string()
      .optional()
      .describe('The id of a call: those after it are sent first. Last-Event-ID wins.'),
  }),
  response: {
    calls: callsSchema,
    sealed: sealedSchema,
    escalations: changedEscalationsSchema,
    status: statusSchema,
    end: endSchema.describe('The client may no longer watch, and need not come again.'),
  },
  async run(request) {
    const { checkPlaces, watch } = await import('./watch.js')
    checkPlaces(request)
    const { calls, after } = request.query
    const dir = calls === 'all' ? logDirectoryOf(request.policy) : undefined
    const id = String(request.headers['last-event-id'] ?? after ?? '')
    return new AdminEventStream((sink) => watch(request, { dir, id }, sink))
  },
})
