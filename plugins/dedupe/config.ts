// The `dedupe` section (contract.md §2.13).
import { checkRedisSettings, redisSettings, redisUrl } from '@svc/core/store'
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
        'Replicas that must know of a call before it is sent (WAIT); with fewer it is refused. 0 waits for none.',
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
        'What a duplicate gets: the stored answer again, which it waits for while the first call runs, or a refusal.',
      ),
    ttlSec: z
      .int()
      .default(86_400)
      .describe(
        'How long a key is remembered once its outcome is known, in seconds; taken as 1 at least and 30 days (2592000) at most.',
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
        'Directory of the keys on disk, on a local filesystem; `dedupe` below `sec0Dir` where it is not given.',
      ),
    timeoutMs: z
      .int()
      .min(1)
      .max(60_000)
      .default(1000)
      .describe('Milliseconds within which the store has to answer; after them the call is refused.'),
    leaseSec: z
      .int()
      .min(1)
      .max(300)
      .default(15)
      .describe('Seconds after which the claim of a gateway that has died ends.'),
    waitSec: z
      .int()
      .min(0)
      .max(3600)
      .default(60)
      .describe('Seconds that a duplicate waits at most for the first call to end.'),
    maxAnswerKb: z
      .int()
      .min(1)
      .max(1024)
      .default(64)
      .describe('Kilobytes of an answer that are kept at most; of a larger one is kept only that it was.'),
  })
  .superRefine(({ redisUrl, redis, dir }, context) => {
    const mistake = (key: string, message: string) =>
      context.addIssue({ code: 'custom', path: [key], message })
    if (redis !== undefined && redisUrl === undefined) mistake('redis', 'is for a store at redisUrl')
    if (dir !== undefined && redisUrl !== undefined) mistake('dir', 'does not go with redisUrl')
  })
  .describe('Calls that repeat an idempotency key.')

export type DedupeConfig = z.output<typeof dedupeSchema>
