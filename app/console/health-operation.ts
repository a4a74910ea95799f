// The operation that returns the state of the gateway beside its calls: stores, warnings, limits in use.
import { type LimitInUse, resolve, tokens } from '@svc/core'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import type { AskProcesses, HealthPart, ProcessFacts } from './process-facts.js'

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

export function healthOperation(ask: AskProcesses<ProcessFacts>): Operation {
  return operation({
    method: 'GET',
    path: '/api/health',
    name: 'read_health',
    summary: 'Returns which stages can serve calls, and which limits per day are how far used.',
    access: 'auditor',
    isUnrecorded: true,
    response: healthSchema,
    async run({ policy: { container } }): Promise<HealthJson> {
      const [all, counted] = await Promise.all([ask('healthParts'), ask('limitsInUse')])
      const parts = worstOf(all)
      const now = resolve(container, tokens.Clock).now()
      const limits = newestCounts(counted)
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

const SEVERITY = { ok: 0, warning: 1, down: 2 }

/** Each part with its worst state in all processes. */
function worstOf(all: readonly (readonly HealthPart[] | null)[]): HealthPart[] {
  const worst = new Map<string, HealthPart>()
  for (const part of all.flatMap((parts) => parts ?? [])) {
    const known = worst.get(part.name)
    if (known === undefined || SEVERITY[part.state] > SEVERITY[known.state]) worst.set(part.name, part)
  }
  const silent = all.filter((parts) => parts === null).length
  const reason = `${silent} of ${all.length} do not respond`
  return [...worst.values(), ...(silent === 0 ? [] : [{ name: 'workers', state: 'down', reason } as const])]
}

/** The newest count of each limit in all processes; counts grow until the day ends. */
function newestCounts(all: readonly (readonly LimitInUse[] | null)[]): LimitInUse[] {
  const last = new Map<string, LimitInUse>()
  for (const found of all.flatMap((limits) => limits ?? [])) {
    const key = `${found.tenant}\0${found.key}`
    const { resetAt = 0, used = 0 } = last.get(key) ?? {}
    if (found.resetAt > resetAt || (found.resetAt === resetAt && found.used > used)) last.set(key, found)
  }
  return [...last.values()]
}
