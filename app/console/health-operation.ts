// The operation that returns the state of the gateway beside its calls: stores, warnings, limits in use.
import { type LimitInUse, resolve, tokens } from '@svc/core'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import type { ProcessFacts } from './process-facts.js'

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
        key: z.string().describe('The counted name.'),
        used: z.int(),
        limit: z.int(),
        resets_at: z.iso.datetime(),
      }),
    )
    .describe('Limits per day as calls last counted them, the fullest first.'),
})

export type HealthJson = z.output<typeof healthSchema>

export function healthOperation(facts: Pick<ProcessFacts, 'healthParts' | 'limitsInUse'>): Operation {
  return operation({
    method: 'GET',
    path: '/api/health',
    name: 'read_health',
    summary: 'Returns which stages can serve calls, and which limits per day are how far used.',
    access: 'auditor',
    isUnrecorded: true,
    response: healthSchema,
    async run({ policy: { container } }): Promise<HealthJson> {
      const parts = [...facts.healthParts()]
      const now = resolve(container, tokens.Clock).now()
      const limits = facts
        .limitsInUse()
        .filter(({ resetAt }) => resetAt > now)
        .map(({ resetAt, ...rest }) => ({ ...rest, resets_at: new Date(resetAt).toISOString() }))
        .sort((a, b) => fullnessOf(b) - fullnessOf(a))
      const ready = parts.every(({ state }) => state !== 'down')
      return { ready, parts, limits: limits.slice(0, MAX_LIMITS) }
    },
  })
}

/** A limit of 0 is always full. */
function fullnessOf({ used, limit }: Pick<LimitInUse, 'used' | 'limit'>): number {
  return limit === 0 ? 1 : used / limit
}
