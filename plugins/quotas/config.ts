// The `quotas` section (contract.md §2.9, decisions.md §7).
import { notAvailable, notYet, type QuotaAdapter } from '@svc/core'
import { z } from 'zod'

const LATER: readonly unknown[] = ['redis']

const adapter = z
  .union([
    z.string().min(1).describe('the name of an adapter (memory, lmdb, or a registered one)'),
    z.custom<QuotaAdapter>(isQuotaAdapter).describe('in code a QuotaAdapter'),
  ])
  .superRefine((given, context) => {
    if (!LATER.includes(given)) return
    context.addIssue({ code: 'custom', message: notAvailable(`the adapter ${String(given)}`) })
  })
  .describe(
    'Where calls are counted: `memory`, forgotten when the process ends; `lmdb`, on disk and shared by the processes of one host; or a registered adapter.',
  )

export const quotasSchema = z
  .strictObject({
    adapter,
    dir: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Directory of the adapter `lmdb`, on a local filesystem; `quotas` below `sec0Dir` where it is not given.',
      ),
    redisUrl: notYet('redisUrl'),
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
      .describe('Milliseconds within which the store has to answer; after them it is down.'),
  })
  .superRefine(({ adapter, dir }, context) => {
    if (dir === undefined || adapter === 'lmdb') return
    context.addIssue({ code: 'custom', path: ['dir'], message: 'is for the adapter lmdb alone' })
  })
  .describe('Counts calls against the limits of `entitlements`.')

export type QuotasConfig = z.infer<typeof quotasSchema>

function isQuotaAdapter(given: unknown): boolean {
  if (typeof given !== 'object' || given === null) return false
  const { incrDaily, takeToken } = given as Partial<Record<keyof QuotaAdapter, unknown>>
  return typeof incrDaily === 'function' && typeof takeToken === 'function'
}
