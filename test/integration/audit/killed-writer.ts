// One of three processes that write and upload one directory is killed (SIGKILL) at a random moment.
// Every acknowledged record must be on disk, verifiable, and in the store once, without opening the log again.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { scan } from '@svc/plugin-audit/internal/log/upload/source'
import { expect } from 'chai'
import { type Cloud, startCloud } from '../../plugins/audit/log/upload/cloud.js'
import { DAY, linesOf, spansOf } from '../../plugins/audit/log/writer/records.js'
import { startWriter, type Writer } from '../../plugins/audit/log/writer/writers.js'
import type { Chance } from '../../support/chance.js'
import { type Experiment, eachRound, expectIntact, expectOnceEach, type Figures } from './experiment.js'

const DAYS = [DAY, '2026-11-22']
const TOTAL = 300
const AGENTS = ['r0', 'r1', 'r2']

export const killedWriter: Experiment = {
  name: 'killed-writer',
  full: 50,
  short: 1,
  rounds: (count, seed) => eachRound(count, seed, round),
}

async function round(chance: Chance, dir: string): Promise<Figures> {
  await using cloud = await startCloud()
  const victim = chance.int(0, 2)
  const kill = momentOf(chance, cloud, () => void writers[victim]?.child.kill('SIGKILL'))
  const writers: Writer[] = ['a0', 'b0', 'c0'].map((name, index) =>
    startWriter(dir, {
      name,
      total: TOTAL,
      days: DAYS,
      config: uploadingTo(cloud.url),
      limits: { uploadTriggerBytes: 2_000, uploadRangeBytes: 6_000 },
      onAcknowledged: (records) => {
        if (index === victim) kill.acknowledged(records)
      },
    }),
  )
  try {
    const survivors = writers.filter((_, index) => index !== victim)
    await Promise.all([writers[victim]?.ended, ...survivors.map(({ written }) => written)])
    expect(writers[victim]?.child.signalCode, 'the victim was killed').to.equal('SIGKILL')
    // Closes one after the other, so that the last one seals and uploads what the others left.
    for (const survivor of survivors) expect(await survivor.close(), 'exit code').to.equal(0)

    const records = await checkLog(dir, writers)
    for (const { acknowledged } of survivors) expect(acknowledged).to.have.length(TOTAL)
    return { records, objects: checkStore(dir, cloud), ...kill.figures }
  } finally {
    for (const { child } of writers) if (child.exitCode === null) child.kill('SIGKILL')
  }
}

/** Resolves after a number of acknowledgements and a delay, or at a request to the store or the control plane. */
function momentOf(chance: Chance, cloud: Cloud, kill: () => void) {
  if (chance.int(0, 2) > 0) {
    const moment = chance.int(1, TOTAL - 20)
    const afterMs = chance.next() * 3
    return {
      acknowledged: (records: number) => {
        if (records === moment) setTimeout(kill, afterMs)
      },
      figures: { 'killed while appending': 1 },
    }
  }
  const moment = chance.int(1, 40)
  let asked = 0
  cloud.intercept = () => {
    if (++asked === moment) kill()
    return false
  }
  // If the upload asks for less than that, the last records end the wait.
  return {
    acknowledged: (records: number) => {
      if (records === TOTAL) kill()
    },
    figures: { 'killed while uploading': 1 },
  }
}

function uploadingTo(apiBaseUrl: string) {
  const metadata = { tenant: 'acme', environment: 'prod', clientName: 'edge', clientVersion: '1.0.0' }
  return {
    checkpoints: { intervalMs: 20 },
    presign: { apiBaseUrl, auditKey: 'Bearer k', ...metadata, intervalMs: 20, timeoutMs: 20_000 },
  }
}

async function checkLog(dir: string, writers: readonly Writer[]): Promise<number> {
  const spans = DAYS.flatMap((day) => spansOf(dir, `audit-${day}.ndjson`))
  expectOnceEach(
    spans,
    writers.flatMap(({ acknowledged }) => acknowledged),
  )
  const report = await expectIntact(dir)
  expect(report.records).to.equal(spans.length)
  for (const day of DAYS) {
    const daily = linesOf(dir, `audit-${day}.ndjson`)
    for (const agent of AGENTS) {
      const own = daily.filter((line) => line.includes(`"agentRef":"${agent}"`))
      expect(linesOf(dir, `agents/n/${day}/${agent}.ndjson`), `${day} ${agent}`).to.deep.equal(own)
    }
  }
  return spans.length
}

/** Every byte of every file of every dataset is in the store once, and nothing else is. */
function checkStore(dir: string, cloud: Cloud): number {
  let bytes = 0
  const compare = (folder: string, stem: string, file: string) => {
    const text = readFileSync(join(dir, file), 'utf8')
    expect(cloud.assembled(folder, stem), `${file} in the store`).to.equal(text)
    bytes += Buffer.byteLength(text)
  }
  for (const { source } of scan(dir)) {
    const { mode, folder, stem, path } = source
    if (mode === 'agent') continue
    if (mode === 'audit' || mode === 'journal' || mode === 'checkpoint') {
      compare(folder, stem, path)
      continue
    }
    // A writer that died may have left hashes behind those of the tree.
    const stored = cloud.assembledBytes(folder, stem)
    expect(readFileSync(join(dir, path)).subarray(0, stored.length), path).to.deep.equal(stored)
    bytes += stored.length
  }
  for (const day of DAYS) {
    for (const name of readdirSync(join(dir, 'agents/n', day))) {
      compare(`agents/n/${day}`, name.slice(0, -'.ndjson'.length), `agents/n/${day}/${name}`)
    }
  }
  const stored = [...cloud.objects.values()].reduce((sum, object) => sum + object.length, 0)
  expect(stored, 'bytes in the store').to.equal(bytes)
  return cloud.objects.size
}
