// The `quotas` section.

import type { QuotaAdapter } from '@svc/core'
import { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from '@svc/core/store'
import { z } from 'zod'

const adapter = z
  .union([
    z.string().min(1).describe('the name of an adapter (memory, lmdb, redis, or a registered one)'),
    z.custom<QuotaAdapter>(isQuotaAdapter).describe('in code a QuotaAdapter'),
  ])
  .optional()
  .describe(
    'Where calls are counted: `memory`; `lmdb`, on disk, by the processes of one host; `redis`, by all that share one; or a registered adapter. Required, unless code binds one.',
  )

const redis = z
  .strictObject({
    ...redisSettings,
    keyPrefix: z.string().default('svc:quotas:').describe('Prefix of every key.'),
    lease: z
      .strictObject({
        calls: z.number().int().min(2).max(1000).describe('The most calls per batch.'),
        ms: z.number().int().min(10).max(60_000).default(1000).describe('Milliseconds that a batch is held.'),
      })
      .optional()
      .describe(
        'Takes calls from the server in batches, each a tenth of what is left at most, so that most calls need no round trip.',
      ),
  })
  .superRefine(checkRedisSettings)
  .optional()
  .describe('More about the adapter `redis`.')

export const quotasSchema = z
  .strictObject({
    adapter,
    dir: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Directory of the adapter `lmdb`, on a local filesystem; `quotas` below `sec0Dir` if it is not given.',
      ),
    redisUrl: redisUrl
      .optional()
      .describe(
        'The server of the adapter `redis`. Characters such as `@` in the password are percent-encoded.',
      ),
    redis,
    failure_mode: z
      .enum(['closed', 'open', 'local'])
      .default('closed')
      .describe(
        'What limited calls get while the store is down: `closed` refuses them, `open` lets them through uncounted, `local` counts them in this process until it is back.',
      ),
    timeoutMs: z
      .number()
      .int()
      .min(1)
      .max(60_000)
      .default(1000)
      .describe('Milliseconds within which the store has to respond; after them it is down.'),
  })
  .superRefine(checkStoreChoice)
  .describe('Counts calls against the limits of `entitlements`.')

export type QuotasConfig = z.infer<typeof quotasSchema>

export function isQuotaAdapter(given: unknown): boolean {
  if (typeof given !== 'object' || given === null) return false
  const { incrDaily, takeToken } = given as Partial<Record<keyof QuotaAdapter, unknown>>
  return typeof incrDaily === 'function' && typeof takeToken === 'function'
}
