// A signer that responds late, in another order, or with an error (an HSM, a KMS), and a disk that refuses a write, under a
// writer that is killed at any moment. What is on disk then is an intact log each time, and the next writer continues it.

import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { type FileSystem, resumeLog, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { verifyInPython } from '../../plugins/audit/log/tools/verify/matrix/python.js'
import {
  appenderIn,
  DAY,
  diskWith,
  envelope,
  ioError as error,
  linesOf,
  signer,
  spansOf,
} from '../../plugins/audit/log/writer/records.js'
import type { Chance } from '../../support/chance.js'
import { type Experiment, eachRound, expectIntact, expectOnceEach, type Figures } from './experiment.js'

const ACTIONS = 60
const DAYS = [DAY, '2026-11-22'] as const
const LONGEST_FLIGHT = 12

export const lateSigner: Experiment = {
  name: 'late-signer',
  full: 200,
  short: 3,
  rounds: (count, seed) => eachRound(count, seed, round),
}

async function round(chance: Chance, folder: string): Promise<Figures> {
  const dir = join(folder, 'log')
  const remote = new RemoteSigner()
  const disk = refusingDisk()
  const isAsync = chance.int(0, 3) > 0
  const appender = appenderIn(dir, {
    signer: isAsync ? remote : signer,
    fileSystem: disk.port,
    onAsyncError: () => undefined,
    limits: { batchBytes: 2_000 },
  })
  await responding(appender.ready(), remote, chance)
  const acknowledged: string[] = []
  const copies: string[] = []
  const appended: Promise<unknown>[] = []
  const figures = { records: 0, refused: 0, kills: 0 }
  const append = () => {
    const record = envelope({ ts: `${chance.pick(DAYS)}T10:00:00Z` })
    figures.records++
    const done = () => void acknowledged.push(record.span_id)
    appended.push(appender.append(record).then(done, () => void figures.refused++))
  }
  for (let i = 0; i < ACTIONS; i++) {
    const action = chance.int(0, 11)
    if (action < 5 && remote.asked.length < LONGEST_FLIGHT) append()
    else if (action < 8) remote.response(chance, 'give')
    else if (action === 8) remote.response(chance, 'refuse')
    else if (action === 9) disk.refuse()
    else if (action === 10) void appender.seal()
    else {
      const copy = join(folder, `killed-${copies.length}`)
      cpSync(dir, copy, { recursive: true })
      copies.push(copy)
      figures.kills++
      await judge(copy, acknowledged)
    }
    for (let turns = chance.int(0, 6); turns > 0; turns--) await turn()
  }
  const closed = Promise.all([...appended, appender.close()])
  await responding(closed, remote, chance)
  await expectIntact(dir)
  expectOnceEach(
    DAYS.flatMap((day) => spansOf(dir, `audit-${day}.ndjson`)),
    acknowledged,
  )
  expectNoHoles(dir)
  judgeInPython(folder, [dir, ...copies])
  return figures
}

/** Gives signatures until `work` is done. */
async function responding(work: Promise<unknown>, remote: RemoteSigner, chance: Chance): Promise<void> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  while (!isDone) {
    remote.response(chance, 'give')
    await turn()
  }
  await done
}

/** The killed writer's log is intact as it is, and after the next writer has continued it. */
async function judge(copy: string, acknowledged: readonly string[]): Promise<void> {
  const needed = [...acknowledged]
  const report = await verifyLog(copy, { keys: [verifierFromPublicKey(signer.publicKey)] })
  expect(report.failures, 'what the killed writer left').to.deep.equal([])
  await resumeLog(copy)
  const next = appenderIn(copy)
  for (const day of DAYS) await next.append(envelope({ ts: `${day}T11:00:00Z` }))
  await next.close()
  await expectIntact(copy)
  expectOnceEach(
    DAYS.flatMap((day) => spansOf(copy, `audit-${day}.ndjson`)),
    needed,
  )
  expectNoHoles(copy)
}

function judgeInPython(folder: string, logs: readonly string[]): void {
  const keys = join(folder, 'keys')
  writeFileSync(keys, `${publicKeyLine(signer.publicKey)}\n`)
  const jobs = logs.map((log) => {
    return { folder: log, keys, against: undefined, origin: undefined, allow_unsealed: false }
  })
  for (const { verdict, failures } of verifyInPython(jobs)) {
    expect(failures).to.deep.equal([])
    expect(verdict).to.equal('intact')
  }
}

/** Each line names every number of its session and day before it that has no line, so a kill leaves no gap unnamed. */
function expectNoHoles(dir: string): void {
  for (const day of DAYS) {
    const next = new Map<string, number>()
    const named = new Set<string>()
    for (const line of linesOf(dir, `audit-${day}.ndjson`)) {
      const { seq, lost = [] } = JSON.parse(line) as { seq: string; lost?: [number, number][] }
      const [session = '', digits] = seq.split(':')
      for (const [from, to] of lost) for (let n = from; n <= to; n++) named.add(`${session}:${n}`)
      const number = Number(digits)
      const expected = next.get(session) ?? 0
      expect(number, `the order of ${session} on ${day}`).to.be.at.least(expected)
      for (let n = expected; n < number; n++)
        expect(named, 'numbers that are named').to.include(`${session}:${n}`)
      next.set(session, number + 1)
    }
  }
}

/** Signs when the test lets it. */
class RemoteSigner {
  readonly keyId = signer.keyId
  readonly publicKey = signer.publicKey
  readonly asked: { readonly give: () => void; readonly refuse: () => void }[] = []

  sign(): never {
    throw new Error('the key is not here')
  }

  verify(data: Uint8Array, sig: Uint8Array): boolean {
    return signer.verify(data, sig)
  }

  signAsync(data: Uint8Array): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.asked.push({
        give: () => resolve(signer.sign(data)),
        refuse: () => reject(new Error('the key service is down')),
      })
    })
  }

  response(chance: Chance, how: 'give' | 'refuse'): void {
    if (this.asked.length === 0) return
    this.asked.splice(chance.int(0, this.asked.length - 1), 1)[0]?.[how]()
  }
}

/** A disk whose next write to a daily log can be refused. */
function refusingDisk(): { readonly port: FileSystem; readonly refuse: () => void } {
  const logs = new Set<number>()
  let isRefusing = false
  const port = diskWith({
    openSync: (path, ...rest) => {
      const fd = nodeFileSystem.openSync(path, ...rest)
      if (/audit-[\d-]+\.ndjson$/.test(path)) logs.add(fd)
      else logs.delete(fd)
      return fd
    },
    writeSync: (fd, ...rest) => {
      if (!isRefusing || !logs.has(fd)) return nodeFileSystem.writeSync(fd, ...rest)
      isRefusing = false
      throw error('ENOSPC')
    },
  })
  return { port, refuse: () => (isRefusing = true) }
}
