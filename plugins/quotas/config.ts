// The `quotas` section (contract.md §2.9, decisions.md §7).
import { notAvailable, notYet, type QuotaAdapter } from '@svc/core'
import { z } from 'zod'

const LATER: readonly unknown[] = ['lmdb', 'redis']

const adapter = z
  .union([
    z.string().min(1).describe('the name of an adapter (memory, or a registered one)'),
    z.custom<QuotaAdapter>(isQuotaAdapter).describe('in code a QuotaAdapter'),
  ])
  .superRefine((given, context) => {
    if (!LATER.includes(given)) return
    context.addIssue({ code: 'custom', message: notAvailable(`the adapter ${String(given)}`) })
  })
  .describe('Where calls are counted: `memory`, forgotten when the process ends, or a registered adapter.')

export const quotasSchema = z
  .strictObject({
    adapter,
    redisUrl: notYet('redisUrl'),
    failure_mode: z
      .literal('closed', {
        error: ({ input }) => (input === 'open' ? notAvailable('failure_mode open') : undefined),
      })
      .default('closed')
      .describe('What limited calls get while the store is down: `closed` refuses them.'),
  })
  .describe('Counts calls against the limits of `entitlements`.')

export type QuotasConfig = z.infer<typeof quotasSchema>

function isQuotaAdapter(given: unknown): boolean {
  if (typeof given !== 'object' || given === null) return false
  const { incrDaily, takeToken } = given as Partial<Record<keyof QuotaAdapter, unknown>>
  return typeof incrDaily === 'function' && typeof takeToken === 'function'
}
