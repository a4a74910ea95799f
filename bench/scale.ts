// What a call costs the stores that gateways share: requests, bytes and CPU time of Redis for each feature, and bytes and
// objects of the log. Each figure is the slope over several numbers of calls, so that what happens once does not count.
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as after } from 'node:timers/promises'
import { mcpRequestsFor } from './gateway/mcp-requests.js'
import { requestsFor } from './gateway/requests.js'
import { Scene } from './gateway/scene.js'
import { heading, print, table } from './measure/report.js'
import { slope } from './measure/statistics.js'
import { bytesBelow, UploadCounter } from './scale/log-traffic.js'
import { approvalSections, approveAll, freePort, openSessions } from './scale/operations.js'
import { MeasuredRedis, type RedisUse } from './scale/redis-traffic.js'
import { sendAll } from './scale/sender.js'

interface Feature {
  readonly name: string
  readonly limits?: object
  readonly sections?: (redisUrl: string, adminPort: number) => Record<string, unknown>
  /** Whether calls have idempotency keys: all another, or all the same. */
  readonly key?: 'fresh' | 'same'
  readonly mcp?: '2026-07-28' | '2025-11-25'
  /** What happens in place of calls; `idle` is one process for a second. */
  readonly operation?: 'idle' | 'approval' | 'session'
}

const daily = { calls_per_day: 1e9 }
const rate = { rate_per_sec: 1e6, burst: 1e6 }
const dedupe = (redisUrl: string) => ({ dedupe: { redisUrl } })
const lease = (redisUrl: string) => ({
  quotas: { adapter: 'redis', redisUrl, redis: { lease: { calls: 100, ms: 1000 } } },
})

const features: readonly Feature[] = [
  { name: 'idle, a process for 1 s', operation: 'idle' },
  { name: 'no limit, no key' },
  { name: 'a daily quota', limits: daily },
  { name: 'a rate', limits: rate },
  { name: 'both', limits: { ...daily, ...rate } },
  { name: 'both, with leases of 100', limits: { ...daily, ...rate }, sections: lease },
  { name: 'an idempotency key, first', sections: dedupe, key: 'fresh' },
  { name: 'an idempotency key, replay', sections: dedupe, key: 'same' },
  { name: 'quota, rate and key', limits: { ...daily, ...rate }, sections: dedupe, key: 'fresh' },
  { name: 'MCP 2026-07-28, both limits', limits: { ...daily, ...rate }, mcp: '2026-07-28' },
  { name: 'MCP 2025-11-25, both limits', limits: { ...daily, ...rate }, mcp: '2025-11-25' },
  { name: 'an MCP session, opened and ended', operation: 'session' },
  { name: 'an approval: opened, voted, used', sections: approvalSections, operation: 'approval' },
]

interface Cost {
  readonly feature: string
  /** For one call, of Redis. */
  readonly requests: number
  readonly commands: number
  readonly bytesIn: number
  readonly bytesOut: number
  readonly cpuMicroseconds: number
  readonly keptBytes: number
}

export async function measureScale(disk: string, quick: boolean): Promise<unknown> {
  heading('What a call costs the stores that gateways share')
  const steps = quick ? [200, 400, 800] : [1000, 2000, 4000]
  const costs: Cost[] = []
  const seconds = quick ? [2, 4, 8] : [10, 20, 40]
  for (const feature of features)
    costs.push(await costOf(disk, feature, feature.operation === 'idle' ? seconds : steps))
  table([
    [
      'Redis, for one call or operation',
      'requests',
      'commands',
      'bytes in',
      'bytes out',
      'CPU µs',
      'bytes kept',
    ],
    ...costs.map((cost) => [
      cost.feature,
      cost.requests.toFixed(2),
      cost.commands.toFixed(1),
      cost.bytesIn.toFixed(0),
      cost.bytesOut.toFixed(0),
      cost.cpuMicroseconds.toFixed(1),
      cost.keptBytes.toFixed(0),
    ]),
  ])
  const log = await logCost(disk, steps.at(-1) ?? 0)
  print(
    `  log: ${log.disk.toFixed(0)} bytes for one call on the disk of the gateway, ${log.uploaded.toFixed(0)} uploaded`,
  )
  print(`  upload: ${log.objects.toFixed(1)} objects at each interval`)
  return { costs, log }
}

/** Entitlements with these limits for every tool. */
const entitlementsOf = (limits: object = {}) => ({
  default_plan: 'all',
  plans: { all: { allowlist: ['*'], ...limits } },
  tenants: {},
})

async function costOf(disk: string, feature: Feature, steps: readonly number[]): Promise<Cost> {
  await using redis = await MeasuredRedis.start()
  const adminPort = await freePort()
  const sections = {
    entitlements: entitlementsOf(feature.limits),
    quotas: { adapter: 'redis', redisUrl: redis.url },
    ...feature.sections?.(redis.url, adminPort),
  }
  const scene = await Scene.set(disk, sections)
  try {
    const { port } = await scene.subject('gateway')
    const requests =
      feature.mcp === undefined
        ? requestsFor(port, scene.tokens)
        : ((await mcpRequestsFor(port, scene.tokens, 16))[feature.mcp] ?? [])
    const send = (count: number): Promise<void> => {
      if (feature.operation === 'idle') return after(count * 1000)
      if (feature.operation === 'session') return openSessions(port, scene.tokens, count)
      if (feature.operation === 'approval') return approveAll(port, adminPort, count)
      return sendAll(port, requests, count, feature.key)
    }
    await send(steps[0] ?? 0)
    const counted = await redis.monitored(() => send(steps[0] ?? 0))
    const points: [calls: number, use: RedisUse][] = []
    for (const calls of steps) points.push([calls, await redis.used(() => send(calls))])
    const of = (measure: keyof RedisUse) => slope(points.map(([calls, use]) => [calls, use[measure]]))
    return {
      feature: feature.name,
      requests: counted.requests / (steps[0] ?? 1),
      commands: counted.commands / (steps[0] ?? 1),
      bytesIn: of('bytesIn'),
      bytesOut: of('bytesOut'),
      cpuMicroseconds: of('cpuMicroseconds'),
      keptBytes: of('keptBytes'),
    }
  } finally {
    await scene.end()
  }
}

/** Milliseconds between seals, and between uploads. */
const INTERVAL = 250
const ROUNDS = 20

interface LogCost {
  /** Bytes for one call: on disk, and uploaded. */
  readonly disk: number
  readonly uploaded: number
  /** Objects for one upload. */
  readonly objects: number
}

async function logCost(disk: string, calls: number): Promise<LogCost> {
  await using counter = await UploadCounter.start()
  const dir = await mkdtemp(join(disk, 'svc-bench-log-'))
  const log = join(dir, 'audit')
  const scene = await Scene.set(disk, {
    audit: { dir: log, checkpointIntervalMs: INTERVAL, presign: counter.presign(INTERVAL) },
  })
  try {
    const { port } = await scene.subject('gateway')
    const requests = requestsFor(port, scene.tokens)
    for (let round = 0; round < ROUNDS; round++) {
      await sendAll(port, requests, calls / ROUNDS)
      await after(INTERVAL)
    }
  } finally {
    // The gateway ends, and uploads what is left.
    await scene.end()
  }
  const bytes = await bytesBelow(log)
  await rm(dir, { recursive: true })
  const { bytes: uploaded, objects, rounds } = counter
  return { disk: bytes / calls, uploaded: uploaded / calls, objects: objects / rounds }
}
