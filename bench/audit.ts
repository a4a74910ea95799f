// Durable signed appends per second, compared with the bare signing loop of the same signer in one run, with and without
// the signing thread; and the latency of an append at half that rate.

import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import { type AuditEnvelope, generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { figure, heading, print, table } from './measure/report.js'
import { quantile, spreadOf } from './measure/statistics.js'

const RECORDS = 16_000
const IN_FLIGHT = [16, 64, 256]
const SIGNERS = { 'thread and loop': 'on', 'loop alone': 'off' } as const
const AGENTS = 64
// The number of callers whose rate is the full load.
const FULL_LOAD = 256
const TICK_MS = 1
const DIGEST = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'

/** An envelope like the gateway's, of about 800 bytes with its signature. */
export function envelope(i: number, agent: boolean): AuditEnvelope {
  return {
    ts: new Date().toISOString(),
    trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
    span_id: (i + 2 ** 32).toString(16).padStart(16, '0'),
    tenant: 'acme',
    environment: 'prod',
    client_name: 'agent-runner',
    client_version: '1.4.2',
    server: 'payments@2.1.0',
    tool: 'list-invoices@1.0.0',
    status: 'ok',
    latency_ms: 3.25,
    retries: 0,
    input_sha256: DIGEST,
    output_sha256: DIGEST,
    policy: { decision: 'allow', retention: 'standard' },
    idempotency_key: null,
    nodeId: agent ? `node-${i % 4}` : null,
    agentRef: agent ? `run-${i % 16}` : null,
    agentVariables: null,
    risk_tags: [],
    findings: [],
    node_type: 'gateway',
    gateway: 'gw@1.0.0',
    key_id: `ed25519:${DIGEST}`,
    mcp_method: 'tools/call',
  }
}

interface Throughput {
  readonly perSecond: number
  /** CPU time over all threads. */
  readonly cpuMicros: number
}

async function throughputOf(times: number, work: () => unknown): Promise<Throughput> {
  const cpu = process.cpuUsage()
  const start = performance.now()
  await work()
  const seconds = (performance.now() - start) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: times / seconds, cpuMicros: (user + system) / times }
}

/** Signs messages of the size of an envelope. */
function bareSigning(signer: LocalDevSigner, message: Uint8Array): Promise<Throughput> {
  const times = RECORDS / 4
  return throughputOf(times, () => {
    for (let i = 0; i < times; i++) signer.sign(message)
  })
}

/** Durable appends by `inFlight` callers, each of which waits for its record. */
async function appending(
  appender: SvcAppender,
  inFlight: number,
  envelopes: readonly AuditEnvelope[],
): Promise<Throughput> {
  let next = 0
  const caller = async () => {
    for (let record = envelopes[next++]; record !== undefined; record = envelopes[next++]) {
      await appender.append(record)
    }
  }
  return throughputOf(envelopes.length, () => Promise.all(Array.from({ length: inFlight }, caller)))
}

/**
 * Milliseconds from the time at which each record was due until it was durable. Records are due `perSecond`, independent of
 * the completion of earlier ones, so that a delay counts for every delayed record.
 */
async function appendLatencies(
  appender: SvcAppender,
  perSecond: number,
  envelopes: readonly AuditEnvelope[],
): Promise<number[]> {
  const latencies: number[] = []
  const appended: Promise<void>[] = []
  const start = performance.now()
  while (appended.length < envelopes.length) {
    await new Promise((resolve) => setTimeout(resolve, TICK_MS))
    const due = Math.min(envelopes.length, Math.floor(((performance.now() - start) / 1000) * perSecond))
    while (appended.length < due) {
      const index = appended.length
      const dueAt = start + (index / perSecond) * 1000
      const durable = appender.append(envelopes[index] as AuditEnvelope)
      appended.push(durable.then(() => void latencies.push(performance.now() - dueAt)))
    }
  }
  await Promise.all(appended)
  return latencies
}

interface Subject {
  readonly name: string
  readonly appender: SvcAppender
}

interface Round {
  readonly perSecond: number
  /** Appends per second over bare signatures per second. */
  readonly ratio: number
  /** The bare signature's share of the CPU time of an append. */
  readonly share: number
}

/** The rounds of each subject. */
type Rounds = Readonly<Record<string, readonly Round[]>>

/** The rounds of each load, and the latencies at half load. */
export async function measureAppending(disk: string, quick: boolean): Promise<Record<string, unknown>> {
  heading('The log alone')
  const rounds = quick ? 3 : 9
  const dir = mkdtempSync(join(disk, 'svc-bench-audit-'))
  try {
    const key = join(dir, 'key')
    generateKeyFile(key)
    const signer = LocalDevSigner.fromKeyRef(`file://${key}`)
    const message = Buffer.from(canonicalize(envelope(0, true)))
    print(`  envelopes of ${message.length} bytes, signed ${message.length + 104}`)
    // On one core the thread has no effect.
    const subjects: Subject[] = Object.entries(SIGNERS)
      .slice(availableParallelism() > 1 ? 0 : 1)
      .map(([name, threads]) => {
        const config = { dir: join(dir, threads), retentionDays: 1, threads }
        return { name, appender: new SvcAppender({ config, signer }) }
      })
    for (const { appender } of subjects) await appender.ready()
    const raw: Record<string, unknown> = await measureRates(subjects, rounds, () =>
      bareSigning(signer, message),
    )
    for (const subject of subjects) raw[`half load, ${subject.name}`] = await measureLatency(subject, rounds)
    for (const { appender } of subjects) await appender.close()
    return raw
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** Durable appends per second over bare signatures, 64 in flight, signed on the event loop: the median of three rounds. */
export async function appendRatio(disk: string): Promise<number> {
  const dir = mkdtempSync(join(disk, 'svc-bench-audit-'))
  try {
    const key = join(dir, 'key')
    generateKeyFile(key)
    const signer = LocalDevSigner.fromKeyRef(`file://${key}`)
    const message = Buffer.from(canonicalize(envelope(0, true)))
    const config = { dir: join(dir, 'log'), retentionDays: 1, threads: 'off' as const }
    const appender = new SvcAppender({ config, signer })
    await appender.ready()
    const envelopes = Array.from({ length: RECORDS / 2 }, (_, i) => envelope(i, false))
    await appending(appender, 64, envelopes)
    const ratios: number[] = []
    for (let round = 0; round < 3; round++) {
      const bare = await bareSigning(signer, message)
      ratios.push((await appending(appender, 64, envelopes)).perSecond / bare.perSecond)
    }
    await appender.close()
    return spreadOf(ratios).median
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

async function measureRates(
  subjects: readonly Subject[],
  rounds: number,
  bare: () => Promise<Throughput>,
): Promise<Record<string, Rounds>> {
  const loads: Record<string, Rounds> = {}
  const rows = [['in flight', 'signed by', 'appends/s', '/ bare signing', 'by CPU', 'a batch']]
  for (const [inFlight, agents] of [...IN_FLIGHT.map((n) => [n, false] as const), [AGENTS, true] as const]) {
    // Created once, so that the garbage collection of records is not measured.
    const envelopes = Array.from({ length: RECORDS }, (_, i) => envelope(i, agents))
    const load = `${inFlight}${agents ? ', 16 agents' : ''}`
    const measured: Record<string, Round[]> = {}
    for (const { appender } of subjects) await appending(appender, inFlight, envelopes)
    for (let round = 0; round < rounds; round++) {
      for (const { name, appender } of subjects) {
        const before = await bare()
        const { perSecond, cpuMicros } = await appending(appender, inFlight, envelopes)
        const after = await bare()
        const ratio = (2 * perSecond) / (before.perSecond + after.perSecond)
        const share = (before.cpuMicros + after.cpuMicros) / (2 * cpuMicros)
        measured[name] = [...(measured[name] ?? []), { perSecond, ratio, share }]
      }
    }
    loads[load] = measured
    for (const { name, appender } of subjects) {
      const column = (value: (round: Round) => number, decimals: number) =>
        figure(spreadOf((measured[name] ?? []).map(value)), decimals)
      const { batches } = appender.status()
      await appending(appender, inFlight, envelopes)
      rows.push([
        load,
        name,
        column((round) => round.perSecond, 0),
        column((round) => round.ratio, 2),
        column((round) => round.share, 2),
        (RECORDS / (appender.status().batches - batches)).toFixed(0),
      ])
    }
  }
  table(rows)
  return loads
}

/** Milliseconds of each round. */
async function measureLatency(
  { name, appender }: Subject,
  rounds: number,
): Promise<Record<'halves' | 'p50' | 'p99', number[]>> {
  const envelopes = Array.from({ length: RECORDS }, (_, i) => envelope(i, false))
  const halves: number[] = []
  const p50: number[] = []
  const p99: number[] = []
  for (let round = 0; round < rounds; round++) {
    const { perSecond } = await appending(appender, FULL_LOAD, envelopes)
    const half = perSecond / 2
    const latencies = await appendLatencies(appender, half, envelopes)
    halves.push(half)
    p50.push(quantile(latencies, 0.5))
    p99.push(quantile(latencies, 0.99))
  }
  print(
    `  at half load, ${figure(spreadOf(halves), 0)} a second, ${name}: ` +
      `p50 ${figure(spreadOf(p50), 2)} ms, p99 ${figure(spreadOf(p99), 2)} ms`,
  )
  return { halves, p50, p99 }
}
