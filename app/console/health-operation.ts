// The operation that returns what an operator must know of the gateway beside its calls: stores, warnings, limits in use.
import { resolve, resolveOptional, services, tokens } from '@svc/core'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'

const MAX_LIMITS = 50

const healthSchema = z.object({
  ready: z.boolean().describe('Whether the gateway serves calls, as /readyz says.'),
  parts: z.array(
    z.object({
      name: z.string().describe('The stage, with its store.'),
      state: z.enum(['ok', 'warning', 'down']),
      reason: z.string().optional(),
    }),
  ),
  limits: z
    .array(
      z.object({
        tenant: z.string(),
        key: z.string().describe('What is counted.'),
        used: z.int(),
        limit: z.int(),
        resets_at: z.iso.datetime(),
      }),
    )
    .describe('Limits per day that calls of this process have counted, the fullest first.'),
})

export type HealthJson = z.output<typeof healthSchema>

export const healthOperation: Operation = operation({
  method: 'GET',
  path: '/api/health',
  name: 'read_health',
  summary: 'Returns which stages can serve calls, and which limits per day are how far used.',
  access: 'auditor',
  isUnrecorded: true,
  response: healthSchema,
  async run({ policy: { pipeline, container } }): Promise<HealthJson> {
    const parts = pipeline.stages.map(({ name, stage }) => {
      const [down, warning] = [stage.ready?.(), stage.warning?.()]
      const reason = down ?? warning
      return {
        name,
        state:
          down !== undefined
            ? ('down' as const)
            : warning === undefined
              ? ('ok' as const)
              : ('warning' as const),
        ...(reason === undefined ? {} : { reason }),
      }
    })
    const now = resolve(container, tokens.Clock).now()
    const limits = (resolveOptional(container, services.limitsInUse)?.() ?? [])
      .filter(({ resetAt }) => resetAt > now)
      .map(({ resetAt, ...rest }) => ({ ...rest, resets_at: new Date(resetAt).toISOString() }))
      .sort((a, b) => b.used / b.limit - a.used / a.limit)
    return { ready: parts.every(({ state }) => state !== 'down'), parts, limits: limits.slice(0, MAX_LIMITS) }
  },
})
