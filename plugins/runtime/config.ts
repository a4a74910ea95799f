// The `runtime` section (contract.md §2.16).
import { z } from 'zod'

const remoteSchema = z
  .strictObject({
    endpoint: z
      .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
      .optional()
      .describe('Address that is asked to evaluate a call.'),
    timeoutMs: z.int().min(1).default(2000).describe('Time for one answer, in milliseconds.'),
    maxRetries: z.int().min(0).default(1).describe('Repeated tries after a failure.'),
    retryBackoffMs: z
      .int()
      .min(0)
      .default(100)
      .describe('Pause before the first repeat, in milliseconds; it doubles with each.'),
    headers: z.record(z.string().min(1), z.string()).optional().describe('Further request headers.'),
    apiKey: z.string().min(1).optional().describe('Key of the remote runtime, sent as a bearer token.'),
  })
  .describe('The remote runtime, where mode is `remote`.')

export const runtimeSchema = z
  .strictObject({
    enforcement: z
      .strictObject({
        mode: z
          .enum(['local', 'remote'])
          .default('local')
          .describe('Who evaluates: this gateway, or a remote runtime.'),
        protocolVersion: z.string().min(1).default('2026-02-01').describe('Version of the runtime protocol.'),
        failureMode: z
          .enum(['local', 'allow', 'deny'])
          .default('deny')
          .describe('What a call gets while the remote runtime fails.'),
        remote: remoteSchema.optional(),
      })
      .optional()
      .describe('Who turns findings into a decision.'),
  })
  .describe('Evaluation of calls by a local or remote runtime.')

export type RuntimeConfig = z.output<typeof runtimeSchema>
