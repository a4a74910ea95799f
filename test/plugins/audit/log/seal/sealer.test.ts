import {
  appendFileSync,
  existsSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Signer } from '@svc/core'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { expect } from 'chai'
import fc from 'fast-check'
import sinon from 'sinon'
import { temporaryDir } from '../../temporary.js'
import { appenderIn, DAY, diskWith, envelope, fixedClock, linesOf, signer } from '../writer/records.js'
import { append, checkpointsIn } from './rig.js'

const BEFORE = '2026-11-20'

describe('the sealer', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  const checkpointsOf = (day = DAY, key = signer) => checkpointsIn(dir.path, day, key)

  /** Resolves when the file is there. */
  async function made(name: string): Promise<void> {
    while (!existsSync(path(name))) await new Promise((resolve) => setImmediate(resolve))
  }

  it('signs new records once, on request and on close', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 3)
    await appender.seal()
    await appender.seal()
    await append(appender, 4)
    await appender.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([3, 7])
  })

  it('signs at every interval while there are new records', async () => {
    const timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const appender = appenderIn(dir.path, { config: { checkpoints: { intervalMs: 2_000 } } })
      await appender.ready()
      await append(appender, 2)
      timers.tick(1_999)
      await appender.flush()
      expect(existsSync(path(`audit-${DAY}.checkpoint`))).to.equal(false)
      timers.tick(1)
      await made(`audit-${DAY}.checkpoint`)
      expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([2])
      await appender.close()
      expect(checkpointsOf()).to.have.length(1)
    } finally {
      timers.restore()
    }
  })

  it('signs after midnight, whatever the interval', async () => {
    const timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const clock = fixedClock(`${DAY}T23:59:59.000Z`)
      const appender = appenderIn(dir.path, { clock, config: { checkpoints: { intervalMs: 3_600_000 } } })
      await appender.ready()
      await append(appender, 1)
      timers.tick(1_100)
      await made(`audit-${DAY}.checkpoint`)
      await appender.close()
      expect(checkpointsOf()).to.have.length(1)
    } finally {
      timers.restore()
    }
  })

  it('can be turned off, which a signer without a public key of its id needs', async () => {
    const { keyId, publicKey } = signer
    const sign = (data: Uint8Array) => signer.sign(data)
    const without = { keyId, sign, verify: () => true }
    const start = (other: Signer) => () =>
      appenderIn(dir.path, { signer: other, config: { checkpoints: {} } })
    expect(start(without)).to.throw('signer has no publicKey')
    expect(start({ ...without, publicKey, keyId: 'kms-1' })).to.throw('signer has the keyId kms-1, but')
    const off = appenderIn(dir.path, { signer: without, config: { checkpoints: false } })
    await append(off, 1)
    await off.close()
    expect(existsSync(path(`audit-${DAY}.checkpoint`))).to.equal(false)
  })

  for (const intervalMs of [0, -1, Number.NaN, 2 ** 31]) {
    it(`refuses an interval of ${intervalMs} ms`, () => {
      expect(() => appenderIn(dir.path, { config: { checkpoints: { intervalMs } } })).to.throw(
        'checkpoints.intervalMs',
      )
    })
  }

  it('names the newest earlier head in the first checkpoint of a day, and seals earlier days that grow', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 2, BEFORE)
    await append(appender, 3)
    await appender.seal()
    await append(appender, 1, BEFORE)
    await append(appender, 1)
    await appender.close()
    const before = checkpointsOf(BEFORE)
    expect(before.map(({ size, prev }) => [size, prev])).to.deep.equal([
      [2, undefined],
      [3, undefined],
    ])
    const { day, size, root } = before[0]!
    expect(checkpointsOf().map((each) => [each.size, each.prev])).to.deep.equal([
      [3, { day, size, root }],
      [4, undefined],
    ])
  })

  it('seals the right days while the clock goes backwards over midnight', async () => {
    const clock = fixedClock(`${DAY}T00:00:01Z`)
    const appender = appenderIn(dir.path, { clock })
    await append(appender, 1)
    await appender.seal()
    clock.ms -= 5_000
    await append(appender, 2, BEFORE)
    await appender.seal()
    clock.ms += 10_000
    await append(appender, 1)
    await appender.close()
    expect(checkpointsOf(BEFORE).map(({ size }) => size)).to.deep.equal([2])
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([1, 2])
  })

  it('resumes to the tree of a complete rebuild, wherever it stopped', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.tuple(fc.integer({ min: 1, max: 40 }), fc.constantFrom('keep', 'remove', 'garble', 'cut')),
          {
            minLength: 1,
            maxLength: 6,
          },
        ),
        async (stops) => {
          for (const name of [`audit-${DAY}.ndjson`, `audit-${DAY}.checkpoint`, `audit-${DAY}.tree`]) {
            rmSync(path(name), { force: true })
          }
          let size = 0
          for (const [count, tree] of stops) {
            const appender = appenderIn(dir.path)
            await append(appender, count)
            await appender.close()
            size += count
            expect(checkpointsOf().at(-1)?.size).to.equal(size)
            const file = path(`audit-${DAY}.tree`)
            if (tree === 'remove') rmSync(file)
            if (tree === 'garble') writeFileSync(file, Buffer.alloc(statSync(file).size, 7))
            if (tree === 'cut') truncateSync(file, statSync(file).size >> 1)
          }
          const resumed = existsSync(path(`audit-${DAY}.tree`))
            ? readFileSync(path(`audit-${DAY}.tree`))
            : undefined
          if (resumed === undefined || stops.at(-1)?.[1] !== 'keep') return
          rmSync(path(`audit-${DAY}.tree`))
          rmSync(path(`audit-${DAY}.checkpoint`))
          const scratch = appenderIn(dir.path)
          await scratch.ready()
          await scratch.close()
          expect(readFileSync(path(`audit-${DAY}.tree`))).to.deep.equal(resumed)
        },
      ),
      { numRuns: 15 },
    )
  })

  it('reads only new lines after a restart', async () => {
    const first = appenderIn(dir.path)
    await append(first, 200)
    await first.close()
    let read = 0
    const fileSystem = diskWith({
      read: (fd, buffer, offset, length, position, done) => {
        read += length
        nodeFileSystem.read(fd, buffer, offset, length, position, done)
      },
    })
    const second = appenderIn(dir.path, { fileSystem })
    await append(second, 1)
    await second.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([200, 201])
    expect(read).to.equal(linesOf(dir.path, `audit-${DAY}.ndjson`).at(-1)!.length + 1)
  })

  it('reads and writes the same amount for a line at the start and the end of a long day', async () => {
    let bytes = 0
    const fileSystem = diskWith({
      read: (fd, buffer, offset, length, position, done) => {
        bytes += length
        nodeFileSystem.read(fd, buffer, offset, length, position, done)
      },
      readSync: (fd, buffer, offset, length, position) => {
        bytes += length
        return nodeFileSystem.readSync(fd, buffer, offset, length, position)
      },
      writeSync: (fd, buffer, offset, length, position) => {
        bytes += length
        return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
      },
    })
    const appender = appenderIn(dir.path, { fileSystem })
    const costOfOne = async () => {
      await append(appender, 1)
      bytes = 0
      await appender.seal()
      return bytes
    }
    await append(appender, 100)
    await appender.seal()
    const early = await costOfOne()
    for (let i = 0; i < 8; i++) await append(appender, 1_000)
    await appender.seal()
    const late = await costOfOne()
    await appender.close()
    expect(early).to.be.above(0)
    // The last notes are read, of which there are two more, and a path in the tree may be longer.
    expect(late).to.be.below(early + 3_000)
  })

  it('seals lines longer than its chunks', async () => {
    const appender = appenderIn(dir.path)
    for (const length of [1, 131_000, 400_000, 5, 131_072]) {
      await appender.append(envelope({ agentVariables: { text: 'x'.repeat(length) } }))
    }
    await appender.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([5])
  })

  it('excludes a torn line at the end of the log', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 2)
    appendFileSync(path(`audit-${DAY}.ndjson`), '{"torn":')
    await appender.seal()
    await appender.close()
    writeFileSync(
      path(`audit-${DAY}.ndjson`),
      readFileSync(path(`audit-${DAY}.ndjson`), 'utf8').replace(/[^\n]+$/, ''),
    )
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([2])
  })
})
