// The `dedupe` section (contract.md §2.13).
import { z } from 'zod'

export const dedupeSchema = z
  .strictObject({
    enabled: z.boolean().optional().describe('Recognise calls that repeat an idempotency key.'),
    duplicatePolicy: z
      .enum(['replay', 'reject'])
      .optional()
      .describe('What a duplicate gets: the stored answer again, or a refusal.'),
    ttlSec: z.int().min(1).optional().describe('How long a key is remembered, in seconds.'),
    namespace: z.string().min(1).optional().describe('Prefix of the keys in the store.'),
    redisUrl: z
      .url({ protocol: /^rediss?$/, error: 'must be a redis or rediss URL' })
      .optional()
      .describe('Address of the store that several gateways share.'),
  })
  .describe('Calls that repeat an idempotency key.')

export type DedupeConfig = z.output<typeof dedupeSchema>
