// The `enforcement` section, with `enforcement.escalations`: where escalations are kept, and how long callers may wait.
import { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from '@svc/core/store'
import { z } from 'zod'

const escalationsSchema = z
  .strictObject({
    adapter: z
      .enum(['memory', 'lmdb', 'redis'])
      .default('lmdb')
      .describe(
        'Where escalations are kept: `memory`; `lmdb`, on disk, for the processes of one host; `redis`, for all that share one Redis or Valkey.',
      ),
    dir: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Directory of the adapter `lmdb`, on a local filesystem; `escalations` below `sec0Dir` if it is not given.',
      ),
    redisUrl: redisUrl
      .optional()
      .describe(
        'The server of the adapter `redis`. Characters such as `@` in the password are percent-encoded.',
      ),
    redis: z
      .strictObject({
        ...redisSettings,
        keyPrefix: z.string().default('svc:escalations:').describe('Prefix of every key.'),
      })
      .superRefine(checkRedisSettings)
      .optional()
      .describe('More about the adapter `redis`.'),
    timeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(1000)
      .describe('Milliseconds within which the store has to respond; after them it is down.'),
    maxWaitSec: z
      .int()
      .min(0)
      .max(600)
      .default(60)
      .describe('The longest wait of a caller with `x-escalation-wait`, in seconds.'),
  })
  .superRefine(checkStoreChoice)
  .prefault({})
  .describe('Where escalations are kept. `security.side_effects` says how they are decided.')

export type EscalationsConfig = z.infer<typeof escalationsSchema>

export const enforcementSchema = z
  .strictObject({
    mode: z
      .enum(['observe', 'enforce'])
      .default('enforce')
      .describe('`observe` records what would have been denied; `enforce` denies it.'),
    deny_on: z
      .array(z.string().min(1))
      .optional()
      .describe('Reason tokens that deny. Absent: every finding does; empty: none does.'),
    escalate_on: z
      .array(z.string().min(1))
      .optional()
      .describe(
        'Reason tokens that escalate the call to reviewers, whether or not `deny_on` names them; needs `security.side_effects.approve_high_risk`.',
      ),
    escalations: escalationsSchema,
  })
  .prefault({})
  .describe('Which findings deny a call.')

export type EnforcementConfig = z.infer<typeof enforcementSchema>
