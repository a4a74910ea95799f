// A writer that dies at any call to the disk, in the middle of a write too: while it begins a log, appends, seals
// several days, lets a key in, and removes a day. The next one continues one tree, from which no checkpoint is missing.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { type FileSystem, LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { append } from '../../plugins/audit/log/seal/rig.js'
import { sealedLog } from '../../plugins/audit/log/seal/sealed-log.js'
import { appenderIn, envelope, fixedClock, signer } from '../../plugins/audit/log/writer/records.js'
import type { Chance } from '../../support/chance.js'
import { type Experiment, eachRound, type Figures } from './experiment.js'

const HOUR = 3_600_000
const FIRST = '2026-11-18'
const SECOND = '2026-11-19'
// About the number of disk changes of a whole run; a few runs end before the writer dies.
const CALLS = 40

export const dyingWriter: Experiment = {
  name: 'dying-writer',
  full: 400,
  short: 6,
  rounds: (count, seed) => eachRound(count, seed, round),
}

async function round(chance: Chance, dir: string): Promise<Figures> {
  const clock = fixedClock(`${FIRST}T12:00:00Z`)
  const disk = new DyingDisk(chance.int(1, CALLS), chance.int(0, 100) / 100)
  const acknowledged = await write(dir, clock, disk).catch(() => [])
  disk.close()
  const before = checkpointsIn(dir)

  const rotated = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
  const options = { clock, config: { retentionDays: 1 }, signer: rotated, retiringSigner: signer }
  const after = appenderIn(dir, options)
  await append(after, 2, SECOND)
  await after.close()
  const { checkpoints, sealed, lines, size } = sealedLog(dir)
  // Every checkpoint that was ever written belongs to the tree, and still exists.
  const now = checkpoints.map(({ size, root }) => `${size} ${root}`)
  expect(now).to.include.members(before)
  expect(Math.max(...checkpoints.map((checkpoint) => checkpoint.size))).to.equal(size)
  const text = [...lines.values()].flat().join()
  const missing = acknowledged.filter(({ day, span }) => lines.has(day) && !text.includes(`"${span}"`))
  expect(missing, 'acknowledged records that are missing').to.deep.equal([])
  for (const [day, found] of lines)
    expect(sealed.get(day) ?? 0, `sealed records of ${day}`).to.equal(found.length)
  return { 'died early': disk.isDead ? 1 : 0, acknowledged: acknowledged.length, checkpoints: now.length }
}

interface Acknowledged {
  readonly day: string
  readonly span: string
}

async function write(dir: string, clock: { ms: number } & ReturnType<typeof fixedClock>, disk: DyingDisk) {
  const acknowledged: Acknowledged[] = []
  const appender = appenderIn(dir, { clock, fileSystem: disk.port, config: { retentionDays: 1 } })
  const some = (count: number, day: string) =>
    Promise.allSettled(
      Array.from({ length: count }, async () => {
        const record = envelope({ ts: `${day}T10:00:00Z` })
        await appender.append(record)
        acknowledged.push({ day, span: record.span_id })
      }),
    )
  await some(3, FIRST)
  await appender.seal()
  await some(5, FIRST)
  clock.ms += 25 * HOUR
  await some(4, SECOND)
  await appender.seal()
  await some(1, SECOND)
  await appender.close()
  clock.ms += 25 * HOUR
  const second = appenderIn(dir, { clock, fileSystem: disk.port, config: { retentionDays: 1 } })
  await second.ready().catch(() => undefined)
  await second.close()
  return acknowledged
}

/** The complete checkpoints, each as its size and root. */
function checkpointsIn(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => name.endsWith('.checkpoint') && existsSync(join(dir, name)))
    .flatMap((name) => {
      const text = readFileSync(join(dir, name), 'utf8')
      return [...text.matchAll(/^\S*svc-audit\S+\n(\d+)\n(\S+)\n\n\u2014 \S+ \S+\n/gm)].map(
        ([, size, root]) => `${size} ${root}`,
      )
    })
}

/** The real disk up to the `nth` call that changes it; that one may write a part, and all later calls fail. */
class DyingDisk {
  isDead = false
  readonly port: FileSystem
  readonly #open = new Set<number>()
  #calls = 0

  constructor(nth: number, part: number) {
    const real = nodeFileSystem
    const isLast = () => !this.isDead && ++this.#calls === nth
    const dead = () => {
      this.isDead = true
      return new Error('the writer is dead')
    }
    const alive =
      <A extends unknown[], R>(call: (...given: A) => R) =>
      (...given: A): R => {
        if (this.isDead) throw dead()
        return call(...given)
      }
    const dying = <A extends unknown[], R>(call: (...given: A) => R) =>
      alive((...given: A): R => {
        if (isLast()) throw dead()
        return call(...given)
      })
    this.port = {
      ...real,
      openSync: alive((...given) => {
        const fd = real.openSync(...given)
        this.#open.add(fd)
        return fd
      }),
      closeSync: (fd) => {
        if (this.#open.delete(fd)) real.closeSync(fd)
      },
      writeSync: alive((fd, bytes, offset, length, position) => {
        if (!isLast()) return real.writeSync(fd, bytes, offset, length, position)
        real.writeSync(fd, bytes, offset, Math.floor(length * part), position)
        throw dead()
      }),
      ftruncateSync: dying(real.ftruncateSync),
      renameSync: dying(real.renameSync),
      rmSync: dying(real.rmSync),
      mkdirSync: dying(real.mkdirSync),
      fsyncSync: alive(real.fsyncSync),
      fsync: (fd, done) => (this.isDead ? done(dead()) : real.fsync(fd, done)),
      fdatasync: (fd, done) => (this.isDead ? done(dead()) : real.fdatasync(fd, done)),
    }
  }

  /** Closes the files and releases the locks of a dead process, as the kernel does. */
  close(): void {
    for (const fd of this.#open) nodeFileSystem.closeSync(fd)
    this.#open.clear()
  }
}
