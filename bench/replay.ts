// The cost of `svc policy replay`: CPU of a recorded call that is read and judged by two policies, verification apart, by
// the slope over logs of several sizes.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { readLog } from '@svc/plugin-audit/tools'
import { loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import { PolicyJudge } from 'svc-sdk/internal/policy-tools/replay/policy-judge'
import { Replay } from 'svc-sdk/internal/policy-tools/replay/replay'
import { figure, heading, print, table } from './measure/report.js'
import { slope, spreadOf } from './measure/statistics.js'

const MILLION = 1_000_000
const DAY = '2026-11-01'

function policyWith(max: number): string {
  return JSON.stringify({
    tenant: 'acme',
    port: 0,
    targets: { billing: 'http://127.0.0.1:9', crm: 'mcp+http://127.0.0.1:9/mcp' },
    audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
    quotas: { adapter: 'memory' },
    authn: { allowUnauthenticated: true },
    entitlements: {
      default_plan: 'p',
      plans: { p: { calls_per_day: 1_000_000, rate_per_sec: 1000 } },
      tenants: { acme: { plan: 'p', allowlist: ['billing/*', 'crm/read*'] } },
    },
    rules: Array.from({ length: 10 }, (_, at) => ({
      name: `rule-${at}`,
      require: `args.amount <= ${max + at} || 'finance' in caller.roles`,
      then: 'deny',
      keep: ['args.amount'],
    })),
  })
}

/** The rounds: milliseconds of CPU by the number of records. */
export async function measureReplay(disk: string, quick: boolean): Promise<unknown> {
  heading('Replay of recorded calls by two policies, 10 conditions each: CPU of a record')
  const sizes = quick ? [20_000, 60_000] : [100_000, 300_000, MILLION]
  const dir = join(disk, 'svc-bench-replay')
  const points: [number, number][] = []
  const slopes: number[] = []
  try {
    for (let round = 0; round < (quick ? 2 : 3); round++) {
      const own: [number, number][] = []
      for (const size of sizes) own.push([size, await cpuOfReplay(dir, size)])
      points.push(...own)
      slopes.push(slope(own) * 1000)
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
  const perRecord = spreadOf(slopes)
  table([
    ['records', 'CPU seconds'],
    ...sizes.map((size) => [
      size.toLocaleString('en'),
      figure(spreadOf(points.filter(([of]) => of === size).map(([, ms]) => ms / 1000))),
    ]),
  ])
  const share = (perRecord.median * MILLION) / 60e6
  print(`  slope ${figure(perRecord)} µs; a million takes ${share.toFixed(2)} of a minute of one core`)
  return { points, slopes }
}

async function cpuOfReplay(dir: string, records: number): Promise<number> {
  rmSync(dir, { recursive: true, force: true })
  mkdirSync(dir, { recursive: true })
  const [old, now] = [policyWith(200), policyWith(100)]
  const files = { old: join(dir, 'old.yaml'), now: join(dir, 'new.yaml') }
  writeFileSync(files.old, old)
  writeFileSync(files.now, now)
  writeLog(dir, records, sha256Hex(old))
  const place = { baseDir: dir, env: {} }
  const start = async (file: string) => {
    const loaded = await loadPolicyFile(file, {}, false)
    if (!loaded.ok) throw new Error('the policy has mistakes')
    return PolicyJudge.start(loaded.policy, place)
  }
  await using oldJudge = await start(files.old)
  await using nowJudge = await start(files.now)
  const before = process.cpuUsage()
  const replay = new Replay({ now: nowJudge, inForce: async () => oldJudge })
  for await (const record of readLog(dir)) await replay.add(record)
  const { judged, fidelity } = await replay.finish()
  const { user, system } = process.cpuUsage(before)
  if (judged !== records || fidelity.repeated !== records) throw new Error('the replay differs from its log')
  return (user + system) / 1000
}

function writeLog(dir: string, records: number, sha256: string): void {
  const file = join(dir, `audit-${DAY}.ndjson`)
  const began = Date.parse(`${DAY}T00:00:00Z`)
  for (let from = 0; from < records; from += 10_000) {
    const lines = Array.from({ length: Math.min(10_000, records - from) }, (_, at) =>
      recordLine(from + at, began + (from + at) * 80, sha256),
    )
    writeFileSync(file, lines.join(''), { flag: 'a' })
  }
}

/** As large as a signed record. */
function recordLine(number: number, at: number, sha256: string): string {
  const hex = number.toString(16).padStart(16, '0')
  return `${JSON.stringify({
    ts: new Date(at).toISOString(),
    trace_id: hex.repeat(2),
    span_id: hex,
    cause_trace_id: null,
    cause_span_id: null,
    tenant: 'acme',
    server: 'billing@1.0',
    tool: `tool_${number % 50}@1.0`,
    status: 'ok',
    sent: 'yes',
    latency_ms: 12.345,
    retries: 0,
    input_sha256: hex.repeat(4),
    output_sha256: hex.repeat(4),
    policy: { decision: 'allow', retention: 'standard' },
    idempotency_key: null,
    nodeId: null,
    agentRef: null,
    agentVariables: null,
    agentMetadata: null,
    risk_tags: [],
    findings: [],
    principal: { user: `user-${number % 200}@acme.example`, roles: ['support'], scopes: ['call'] },
    environment: 'prod',
    client_name: 'gw',
    client_version: '1.0.0',
    node_type: 'gateway',
    gateway: 'gw@1.0.0',
    decided_by: { stage: 'entitlements', pattern: 'billing/*' },
    kept: { values: { 'args.amount': number % 190 } },
    policy_sha256: sha256,
    key_id: `ed25519:${hex.repeat(4)}`,
    log_id: hex,
    seq: `${hex}:${number}`,
    sig: `ed25519:${'A'.repeat(86)}==`,
  })}\n`
}
