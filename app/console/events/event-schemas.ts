// The events that clients of the console get: calls, escalations, sealed records, the end of the stream.
import { z } from 'zod'
import { callRowSchema } from '../calls/call-row.js'

export const callsSchema = z.object({
  rows: z.array(callRowSchema).describe('In the order of the log.'),
  seen: z
    .int()
    .describe('Calls that were recorded since the event before, about so many if one_in is above 1.'),
  one_in: z.int().describe('Above 1: there were too many, and every n-th is shown.'),
  is_backfill: z.boolean().describe('Whether they were recorded while the client was away.'),
})

export const sealedSchema = z.object({
  ends: z
    .array(z.object({ day: z.string(), end: z.int() }))
    .readonly()
    .describe(
      'The newest days: calls whose id is up to <day>:<end> are sealed, and all calls of earlier days.',
    ),
})

export const changedEscalationsSchema = z.object({
  changed: z.array(z.string()).describe('Ids of escalations that you may see and that are new or differ.'),
})

export const endSchema = z.object({ error: z.string(), message: z.string() })

export type CallsEvent = z.output<typeof callsSchema>

export type SealedEvent = z.output<typeof sealedSchema>

export type EscalationsEvent = z.output<typeof changedEscalationsSchema>

export type EndEvent = z.output<typeof endSchema>
