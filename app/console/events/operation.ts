// The operation whose response is the events of the gateway: calls, escalations, its state.
import { z } from 'zod'
import { AdminEventStream, operation } from '../../admin/operation.js'
import { callRowSchema } from '../calls/call-row.js'
import { logDirectoryOf } from '../calls/operations.js'
import { statusSchema } from '../status-operation.js'

const callsSchema = z.object({
  rows: z.array(callRowSchema).describe('In the order of the log.'),
  seen: z
    .int()
    .describe('Calls that were recorded since the event before, about so many if one_in is above 1.'),
  one_in: z.int().describe('Above 1: there were too many, and every n-th is shown.'),
  is_backfill: z.boolean().describe('Whether they were recorded while the client was away.'),
})

const sealedSchema = z.object({
  ends: z
    .array(z.object({ day: z.string(), end: z.int() }))
    .readonly()
    .describe(
      'The newest days: calls whose id is up to <day>:<end> are sealed, and all calls of earlier days.',
    ),
})

const changedSchema = z.object({
  changed: z.array(z.string()).describe('Ids of escalations that you may see and that are new or differ.'),
})

const endSchema = z.object({ error: z.string(), message: z.string() })

export type CallsEvent = z.output<typeof callsSchema>
export type SealedEvent = z.output<typeof sealedSchema>
export type EscalationsEvent = z.output<typeof changedSchema>
export type EndEvent = z.output<typeof endSchema>

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
    escalations: changedSchema,
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
