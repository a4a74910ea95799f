// An entry on disk and in Redis: JSON, checked when it is read.
import type { EscalationEntry } from '@svc/core'
import { z } from 'zod'

const entrySchema = z.strictObject({
  id: z.string(),
  fingerprint: z.string(),
  principal: z.string(),
  isPending: z.boolean(),
  createdAt: z.number(),
  wakeAt: z.number(),
  dueAt: z.number(),
  forgetAt: z.number(),
  version: z.int(),
  body: z.string(),
})

export function encodeEntry(entry: EscalationEntry): string {
  return JSON.stringify(entry)
}

/** @throws {Error} if the text is not an entry */
export function decodeEntry(text: string): EscalationEntry {
  return entrySchema.parse(JSON.parse(text))
}
