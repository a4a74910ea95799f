// The effect of an upload on appends: durable appends per second during the upload of a backlog to a store in a separate
// process, compared with appends without an upload, alternating.

import { closeSync, fsyncSync, linkSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as after } from 'node:timers/promises'
import { generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { envelope } from './audit.js'
import { Child } from './measure/child.js'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const IN_FLIGHT = 64
const BACKLOG_BYTES = 100 * 2 ** 20
const WARM_UP_MS = 500
const SLICE_MS = 250
const MS_PER_DAY = 86_400_000
const NEVER = 2 ** 31 - 1

interface Round {
  /** Appends per second. */
  readonly without: number
  readonly with: number
  /** While the store accepted bytes. */
  readonly seconds: number
  readonly megabytes: number
}

export async function measureUpload(disk: string, quick: boolean): Promise<readonly Round[]> {
  heading(`Appending while ${BACKLOG_BYTES / 2 ** 20} MiB are uploaded`)
  const dir = mkdtempSync(join(disk, 'svc-bench-upload-'))
  const store = await Child.start('upload/store', {})
  try {
    const key = join(dir, 'key')
    generateKeyFile(key)
    const signer = LocalDevSigner.fromKeyRef(`file://${key}`)
    const backlog = join(dir, 'backlog')
    writeBacklog(backlog)
    const rounds: Round[] = []
    for (let round = 0; round < (quick ? 5 : 15); round++) {
      const log = join(dir, `log-${round}`)
      rounds.push(await measureRound(log, backlog, signer, store))
      rmSync(log, { recursive: true })
    }
    report(rounds)
    return rounds
  } finally {
    await store.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

/** One upload, divided into slices: in every other one the store accepts nothing. */
async function measureRound(
  dir: string,
  backlog: string,
  signer: LocalDevSigner,
  store: Child,
): Promise<Round> {
  const appender = await opened(dir, signer, store.port)
  const takenBefore = await store.ask('store', { takes: true })
  await appender.flush()
  linkSync(backlog, join(dir, `audit-${dayBefore(3)}.ndjson`))
  await appendFor(appender, after(WARM_UP_MS))
  const totals = { without: { appends: 0, seconds: 0 }, with: { appends: 0, seconds: 0 } }
  let uploaded: Promise<void> | undefined
  let isOver = false
  while (!isOver) {
    await store.ask('store', { takes: false })
    add(totals.without, await appendFor(appender, after(SLICE_MS)))
    await store.ask('store', { takes: true })
    uploaded ??= appender.flush().then(() => {
      isOver = true
    })
    add(totals.with, await appendFor(appender, Promise.race([uploaded, after(SLICE_MS)])))
  }
  const taken = (await store.ask('store', { takes: true })) - takenBefore
  await appender.close()
  return {
    without: totals.without.appends / totals.without.seconds,
    with: totals.with.appends / totals.with.seconds,
    seconds: totals.with.seconds,
    megabytes: taken / 1e6,
  }
}

/** Uploads on demand, without checkpoints: another benchmark measures sealing. */
async function opened(dir: string, signer: LocalDevSigner, port: number): Promise<SvcAppender> {
  const appender = new SvcAppender({
    config: {
      dir,
      retentionDays: 365,
      checkpoints: false,
      presign: {
        apiBaseUrl: `http://127.0.0.1:${port}`,
        auditKey: 'Bearer measure',
        ...{ tenant: 'acme', environment: 'bench', clientName: 'bench', clientVersion: '1.0.0' },
        intervalMs: NEVER,
      },
    },
    limits: { uploadTriggerBytes: NEVER },
    signer,
  })
  await appender.ready()
  return appender
}

interface Count {
  appends: number
  seconds: number
}

function add(total: Count, { appends, seconds }: Count): void {
  total.appends += appends
  total.seconds += seconds
}

/** Durable appends until `end`. */
async function appendFor(appender: SvcAppender, end: Promise<unknown>): Promise<Count> {
  let goesOn = true
  let appends = 0
  const caller = async () => {
    while (goesOn) await appender.append(envelope(appends++, false))
  }
  const start = performance.now()
  const callers = Promise.all(Array.from({ length: IN_FLIGHT }, caller))
  await end
  goesOn = false
  await callers
  return { appends, seconds: (performance.now() - start) / 1000 }
}

/** Whole lines of a record's length, on disk. */
function writeBacklog(path: string): void {
  const piece = Buffer.from(`${JSON.stringify({ text: 'x'.repeat(884) })}\n`.repeat(1024))
  const fd = openSync(path, 'w')
  for (let bytes = 0; bytes < BACKLOG_BYTES; bytes += piece.length) writeSync(fd, piece)
  fsyncSync(fd)
  closeSync(fd)
}

function dayBefore(days: number): string {
  return new Date(Date.now() - days * MS_PER_DAY).toISOString().slice(0, 10)
}

function report(rounds: readonly Round[]): void {
  const rate = (of: (round: Round) => number) => figure(spreadOf(rounds.map(of)), 0)
  table([
    ['', 'appends/s'],
    ['no upload', rate((round) => round.without)],
    ['uploading', rate((round) => round.with)],
  ])
  const ratio = figure(spreadOf(rounds.map((round) => round.with / round.without)), 3)
  print(`  uploading / no upload: ${ratio}`)
  const seconds = spreadOf(rounds.map((round) => round.seconds))
  const speed = spreadOf(rounds.map((round) => round.megabytes / round.seconds))
  print(`  the upload took ${figure(seconds, 2)} s, ${figure(speed, 0)} MB/s, new records included`)
}
