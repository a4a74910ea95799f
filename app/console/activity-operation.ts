// The operation that returns what callers did in the last hours, counted from the lines of the log.
import { Refusal, resolve, resolveOptional, services, tokens } from '@svc/core'
import type { Activity } from '@svc/plugin-audit/tools'
import { z } from 'zod'
import { type Operation, type OperationRequest, operation } from '../admin/operation.js'

const HOUR_MS = 3_600_000
const MAX_ROUTES = 200
const MAX_PAIRS = 1_000
const MAX_REASONS = 100

const count = z.int()
const counts = { allowed: count, denied: count, failed: count }
const milliseconds = z.number()
const pair = {
  tenant: z.string(),
  caller: z.string(),
  server: z.string(),
  ...counts,
}

const activitySchema = z.object({
  from: z.iso.datetime(),
  to: z.iso.datetime(),
  read_from: z.iso.datetime().optional().describe('The log is so long that older lines were not read.'),
  bucket_sec: count,
  ...counts,
  latency_ms: z
    .object({ p50: milliseconds, p90: milliseconds, p99: milliseconds, max: milliseconds })
    .describe('The time of the gateway and of the servers: of calls about which nobody was asked.'),
  waits_ms: z
    .object({ count, p50: milliseconds, max: milliseconds })
    .describe('The time from the opening of an escalation to the decision of people, or to the time-out.'),
  buckets: z.array(z.object({ at: z.iso.datetime(), ...counts, p50_ms: milliseconds, p99_ms: milliseconds })),
  reasons: z.array(z.object({ reason: z.string(), effect: z.string(), calls: count })),
  pairs: z.array(z.object(pair)).describe('Calls by caller and server, the most first.'),
  pairs_more: z.boolean().describe('Whether there are more pairs; the totals have all calls.'),
  routes: z
    .array(
      z.object({
        ...pair,
        tool: z.string(),
        kind: z
          .enum(['tool', 'prompt', 'resource', 'protocol'])
          .describe('The kind of name in `tool`; `protocol` stands for a method.'),
        version: z.string(),
      }),
    )
    .describe('Calls by caller and tool, the most first.'),
  routes_more: z.boolean().describe('Whether there are more routes or reasons; the totals have all calls.'),
})

export type ActivityJson = z.output<typeof activitySchema>

const querySchema = z.strictObject({
  hours: z.coerce.number().int().min(1).max(24).default(24),
  server: z.string().max(200).optional().describe('Only the routes and pairs of this server.'),
})

/** Reads the log on demand, and keeps the counts for the next time. */
export class ActivityReader {
  readonly #activities = new Map<string, Activity>()

  /**
   * @throws {Refusal} `TARGET_NOT_FOUND` without a log on disk, `TOOL_NOT_ALLOWED` for a client that may not see its
   *   tenant's calls
   */
  async read(
    { policy, access }: OperationRequest,
    { hours, server }: z.output<typeof querySchema>,
  ): Promise<ActivityJson> {
    const { dir } = resolveOptional(policy.container, services.auditLog) ?? {}
    if (dir === undefined) throw new Refusal('TARGET_NOT_FOUND', 'This gateway keeps no log of its own.')
    const seesAll = access.readsAll || access.readsOutlines
    if (!seesAll && access.tenant === undefined)
      throw new Refusal('TOOL_NOT_ALLOWED', 'You may see escalations, and no other calls.')
    const until = resolve(policy.container, tokens.Clock).now()
    const since = until - hours * HOUR_MS
    const activity = await this.#activityOf(dir)
    await activity.refresh(until)
    const found = activity.counts({ since, until, tenant: seesAll ? undefined : access.tenant })
    const { allowed, denied, failed, latency, waits, buckets, reasons } = found
    const isWanted = (one: { readonly server: string }) => server === undefined || one.server === server
    const [routes, pairs] = [found.routes.filter(isWanted), found.pairs.filter(isWanted)]
    return {
      from: instant(since),
      to: instant(until),
      ...(found.readFrom === undefined ? {} : { read_from: instant(found.readFrom) }),
      bucket_sec: found.bucketMs / 1000,
      allowed,
      denied,
      failed,
      latency_ms: latency,
      waits_ms: waits,
      buckets: buckets.map(({ from, p50, p99, ...rest }) => ({
        at: instant(from),
        ...rest,
        p50_ms: p50,
        p99_ms: p99,
      })),
      reasons: reasons.slice(0, MAX_REASONS),
      pairs: pairs.slice(0, MAX_PAIRS),
      pairs_more: found.isCut || pairs.length > MAX_PAIRS,
      routes: routes.slice(0, MAX_ROUTES),
      routes_more: found.isCut || routes.length > MAX_ROUTES || reasons.length > MAX_REASONS,
    }
  }

  /** The routes of the last 24 hours; none if the gateway keeps no log of its own. */
  async routes(request: OperationRequest): Promise<ActivityJson['routes']> {
    const { dir } = resolveOptional(request.policy.container, services.auditLog) ?? {}
    return dir === undefined ? [] : (await this.read(request, { hours: 24 })).routes
  }

  async #activityOf(dir: string): Promise<Activity> {
    const known = this.#activities.get(dir)
    if (known !== undefined) return known
    // Loaded here, because a gateway records without the tools that read its log.
    const { Activity } = await import('@svc/plugin-audit/tools')
    const activity = new Activity(dir)
    this.#activities.set(dir, activity)
    return activity
  }
}

export function activityOperation(reader: ActivityReader): Operation {
  return operation({
    method: 'GET',
    path: '/api/activity',
    name: 'read_activity',
    summary: 'Returns what callers did in the last hours: calls over time, denials by reason, latency.',
    access: 'reader',
    query: querySchema,
    response: activitySchema,
    run: (request) => reader.read(request, request.query),
  })
}

function instant(time: number): string {
  return new Date(time).toISOString()
}
