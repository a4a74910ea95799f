// The `dedupe` section.
import { checkRedisSettings, MAX_KEYS, redisSettings, redisUrl } from '@svc/core/store'
import { z } from 'zod'

const redis = z
  .strictObject({
    ...redisSettings,
    waitReplicas: z
      .int()
      .min(0)
      .max(10)
      .default(0)
      .describe(
        'Replicas that must have the mark of a call before it is sent (WAIT); with fewer the call is refused. 0 waits for none.',
      ),
  })
  .superRefine(checkRedisSettings)
  .optional()
  .describe('More about the store at `redisUrl`.')

export const dedupeSchema = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Recognise calls that repeat an idempotency key.'),
    duplicatePolicy: z
      .enum(['replay', 'reject'])
      .default('replay')
      .describe(
        'The result of a duplicate: the response of the first call, which it waits for, or a refusal.',
      ),
    ttlSec: z
      .int()
      .default(86_400)
      .describe(
        'Seconds that a key is remembered after its outcome is known; clamped to between 1 and 2592000 (30 days).',
      ),
    namespace: z
      .string()
      .min(1)
      .max(200)
      .default('svc:dedupe')
      .describe('Prefix of the keys in the store; gateways with another one share no keys.'),
    redisUrl: redisUrl
      .optional()
      .describe(
        'The Redis or Valkey that several hosts share; without it the keys lie on disk, shared by the processes of one host.',
      ),
    redis,
    dir: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Directory of the keys on disk, on a local filesystem; `dedupe` below `sec0Dir` if it is not given.',
      ),
    timeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(1000)
      .describe('Milliseconds within which the store has to respond; after them the call is refused.'),
    failureMode: z
      .enum(['closed', 'open'])
      .default('closed')
      .describe(
        'Calls with side effects that have a key, after Redis has lost its keys and while `ttlSec` has not passed since: `closed` refuses them, `open` sends them, though they may have run.',
      ),
    leaseSec: z
      .int()
      .min(1)
      .max(300)
      .default(15)
      .describe('Seconds after which the claim of a gateway that died ends.'),
    maxKeysPerTenant: z
      .int()
      .min(16)
      .default(MAX_KEYS)
      .describe(
        'About how many keys of a tenant are kept; a call of it with another new key is refused (`RATE_LIMITED`) until some have ended.',
      ),
    waitSec: z
      .int()
      .min(0)
      .max(3600)
      .default(60)
      .describe('The longest wait of a duplicate for the first call, in seconds.'),
    maxResponseKb: z
      .int()
      .min(1)
      .max(1024)
      .default(64)
      .describe(
        'The largest response that is kept, in kilobytes; of a larger one only the fact that the call ran.',
      ),
  })
  .superRefine(({ redisUrl, redis, dir }, context) => {
    const mistake = (key: string, message: string) =>
      context.addIssue({ code: 'custom', path: [key], message })
    if (redis !== undefined && redisUrl === undefined) mistake('redis', 'is for a store at redisUrl')
    if (dir !== undefined && redisUrl !== undefined) mistake('dir', 'does not go with redisUrl')
  })
  .describe('Calls that repeat an idempotency key.')

export type DedupeConfig = z.output<typeof dedupeSchema>
