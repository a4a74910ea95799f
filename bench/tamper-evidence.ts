// The cost of tamper evidence: sealing as a share of appending, and verification compared with the bare signature check,
// and the cost of a checkpoint. By CPU time and by elapsed time, which includes other load.

import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import { generateKeyFile, LocalDevSigner, SvcAppender, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { type VerifyOptions, verifyLog } from '@svc/plugin-audit/tools'
import { envelope } from './audit.js'
import { heading, print, table } from './measure/report.js'
import { writeSealedLog } from './sealed-log.js'

const IN_FLIGHT = 64
// Sealing is explicit, never by its interval.
const INTERVAL_MS = 86_400_000
const SEALS_OF_A_YEAR = 3_153_600
const THREADS = ['on', 'off'] as const

interface Cost {
  readonly seconds: number
  readonly cpuSeconds: number
  /** The CPU seconds of the thread that runs the event loop. */
  readonly loopSeconds: number
}

function loopSeconds(): number {
  const [nanoseconds] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')
  return Number(nanoseconds) / 1e9
}

async function costOf(work: () => unknown): Promise<Cost> {
  const began = performance.now()
  const cpu = process.cpuUsage()
  const loop = loopSeconds()
  await work()
  const { user, system } = process.cpuUsage(cpu)
  return {
    seconds: (performance.now() - began) / 1e3,
    cpuSeconds: (user + system) / 1e6,
    loopSeconds: loopSeconds() - loop,
  }
}

/** The cost of each round of appending and sealing, and of each way to verify. */
export async function measureTamperEvidence(disk: string, quick: boolean): Promise<unknown> {
  const records = quick ? 20_000 : 100_000
  const rounds = quick ? 2 : 5
  heading('Tamper evidence')
  const dir = mkdtempSync(join(disk, 'svc-bench-seal-'))
  try {
    const key = join(dir, 'key')
    generateKeyFile(key)
    const signer = LocalDevSigner.fromKeyRef(`file://${key}`)
    const subjects = THREADS.map((threads) => {
      const log = join(dir, threads)
      const config = { dir: log, retentionDays: 1, threads, checkpoints: { intervalMs: INTERVAL_MS } }
      return { threads, appender: new SvcAppender({ config, signer }) }
    })
    for (const { appender } of subjects) await appender.ready()
    const costs: { round: number; threads: string; append: Cost; seal: Cost }[] = []
    const rows = [
      ['sealed before', 'threads', 'append, µs CPU', 'seal', 'share', 'on the event loop', 'seal', 'share'],
    ]
    for (let round = 0; round < rounds; round++) {
      for (const { threads, appender } of subjects) {
        const append = await costOf(() => appendAll(appender, records, signer.keyId))
        const seal = await costOf(() => appender.seal())
        costs.push({ round, threads, append, seal })
        const columns = (['cpuSeconds', 'loopSeconds'] as const).flatMap((of) => [
          ...[append, seal].map((cost) => ((cost[of] / records) * 1e6).toFixed(2)),
          `${((seal[of] / append[of]) * 100).toFixed(1)} %`,
        ])
        rows.push([String(round * records), threads, ...columns])
      }
    }
    for (const { appender } of subjects) await appender.close()
    table(rows)
    const verify = await measureVerify(join(dir, 'on'), signer, bareVerify(signer))
    const checkpoints = await measureCheckpoints(join(dir, 'checkpoints'), signer, quick ? 20_000 : 100_000)
    return { records, costs, verify, checkpoints }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

async function appendAll(appender: SvcAppender, records: number, keyId: string): Promise<void> {
  let next = 0
  const caller = async () => {
    while (next < records) await appender.append({ ...envelope(next++, false), key_id: keyId })
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller))
}

/**
 * CPU seconds of one bare signature check over a message of the size of an envelope. Each message is different, as in a log:
 * repeated checks of the same message are faster because of branch prediction.
 */
function bareVerify(signer: LocalDevSigner): number {
  const signed = Array.from({ length: 20_000 }, (_, i) => {
    const message = Buffer.from(canonicalize({ ...envelope(i, false), key_id: signer.keyId }))
    return { message, sig: signer.sign(message) }
  })
  const cpu = process.cpuUsage()
  for (const { message, sig } of signed) signer.verify(message, sig)
  const { user, system } = process.cpuUsage(cpu)
  return (user + system) / 1e6 / signed.length
}

async function measureVerify(
  log: string,
  signer: LocalDevSigner,
  bare: number,
): Promise<Record<string, Cost>> {
  const costs: Record<string, Cost> = {}
  const keys = [verifierFromPublicKey(signer.publicKey)]
  const day = new Date().toISOString().slice(0, 10)
  const megabytes = statSync(join(log, `audit-${day}.ndjson`)).size / 1e6
  const cores = availableParallelism()
  const rows = [['verify', 'records/s', 'MB/s', 'MB per CPU second', 'of the bare check, by CPU']]
  for (const [name, options] of [
    ['one thread', { threads: 1 }],
    [`${cores} threads`, {}],
    ['--fast, one thread', { threads: 1, fast: true }],
    [`--fast, ${cores} threads`, { fast: true }],
  ] satisfies [string, VerifyOptions][]) {
    let records = 0
    const cost = await costOf(async () => {
      const report = await verifyLog(log, { keys, ...options })
      if (report.verdict !== 'intact') throw new Error(`the log is ${report.verdict}`)
      records = report.records
    })
    costs[name] = cost
    rows.push([
      name,
      (records / cost.seconds).toFixed(0),
      (megabytes / cost.seconds).toFixed(0),
      (megabytes / cost.cpuSeconds).toFixed(0),
      'fast' in options ? '' : ((bare * records) / cost.cpuSeconds).toFixed(2),
    ])
  }
  table(rows)
  print(`bare check: ${(1 / bare).toFixed(0)} a CPU second; log of ${megabytes.toFixed(0)} MB`)
  return costs
}

/** Verifies a log that seals every ten seconds, one record each. */
async function measureCheckpoints(
  dir: string,
  signer: LocalDevSigner,
  seals: number,
): Promise<Record<string, Cost>> {
  const bytes = writeSealedLog(dir, seals, signer)
  const keys = [verifierFromPublicKey(signer.publicKey)]
  const costs: Record<string, Cost> = {}
  const rows = [['verify', 'checkpoints/s', 'µs CPU a checkpoint', 'of a year, CPU s']]
  for (const [name, options] of [
    ['with a record each', {}],
    ['--fast', { fast: true }],
    ['--fast, one thread', { fast: true, threads: 1 }],
  ] satisfies [string, VerifyOptions][]) {
    const cost = await costOf(async () => {
      const report = await verifyLog(dir, { keys, ...options })
      if (report.verdict !== 'intact') throw new Error(`the log is ${report.verdict}`)
    })
    costs[name] = cost
    const each = cost.cpuSeconds / seals
    const year = (each * SEALS_OF_A_YEAR).toFixed(0)
    rows.push([name, (seals / cost.seconds).toFixed(0), (each * 1e6).toFixed(1), year])
  }
  table(rows)
  print(`${seals} checkpoints, log of ${(bytes / 1e6).toFixed(0)} MB`)
  return costs
}
