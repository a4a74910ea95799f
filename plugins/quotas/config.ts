// The `quotas` section (contract.md §2.9, decisions.md §7).
import type { QuotaAdapter } from '@svc/core'
import { z } from 'zod'

const NOT_YET = 'not available yet: the stores lmdb and redis come in a later release'
const LATER: ReadonlySet<unknown> = new Set(['lmdb', 'redis'])

const adapter = z
  .union([z.string().min(1), z.custom<QuotaAdapter>(isQuotaAdapter)], {
    error: 'expected "memory", the name of a registered adapter or, in code, a QuotaAdapter',
  })
  .refine((given) => !LATER.has(given), { error: NOT_YET })

export const quotasSchema = z.strictObject({
  adapter,
  redisUrl: z.never({ error: NOT_YET }).optional(),
  /** What happens to limited calls while the store is down: `closed` refuses them. */
  failure_mode: z
    .literal('closed', {
      error: ({ input }) =>
        input === 'open'
          ? 'not available yet: only "closed" is'
          : 'expected "closed": calls are refused while the store is down',
    })
    .default('closed'),
})

export type QuotasConfig = z.infer<typeof quotasSchema>

function isQuotaAdapter(given: unknown): boolean {
  if (typeof given !== 'object' || given === null) return false
  const { incrDaily, takeToken } = given as Partial<Record<keyof QuotaAdapter, unknown>>
  return typeof incrDaily === 'function' && typeof takeToken === 'function'
}
