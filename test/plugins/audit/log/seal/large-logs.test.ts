import { appendFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, diskWith, envelope, linesOf, signer } from '../writer/records.js'
import { append } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

describe('the sealer on large logs', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  it('keeps the tree files within 5 % of a log of 800-byte records', async () => {
    const appender = appenderIn(dir.path)
    const agentVariables = { text: 'x'.repeat(350) }
    const record = () => appender.append(envelope({ agentVariables }))
    for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 100 }, record))
    await appender.close()
    const log = statSync(path(`audit-${DAY}.ndjson`)).size
    expect(log / 2_000).to.be.within(750, 850)
    expect(statSync(path('tree/0/0')).size + statSync(path('tree/8/0')).size).to.be.below(0.05 * log)
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
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(201)
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
    // The last notes are read, of which there are two more.
    expect(late).to.be.below(early + 3_000)
  })

  it('cuts ranges at multiples of 4096 leaves', async () => {
    const appender = appenderIn(dir.path)
    for (let i = 0; i < 9; i++) await append(appender, 1_000)
    await appender.close()
    const ranges = journalOf(dir.path).at(-1)!['ranges']
    expect(ranges.map(([, , , lines]: [string, number, number, number]) => lines)).to.deep.equal([
      4_095, 4_096, 809,
    ])
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(9_000)
  })

  it('ends a seal after 262144 leaves, at a multiple of 4096, and begins the next', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 1)
    const lines = 270_000
    appendFileSync(path(`audit-${DAY}.ndjson`), '{}\n'.repeat(lines))
    await appender.close()
    expect(journalOf(dir.path).map(({ leaf }) => leaf)).to.deep.equal([0, 266_240, lines + 3])
    const { failureCounts } = await verifyLog(dir.path, {
      keys: [verifierFromPublicKey(signer.publicKey)],
      fast: true,
    })
    expect(failureCounts).to.not.have.property('missing_checkpoint')
    // Opening computes the tree anew, and checks the roots of all lines.
    rmSync(path('tree'), { recursive: true })
    await using again = appenderIn(dir.path)
    await again.ready()
  })

  it('hashes many records in slices of at most 128 KiB, between which appends become durable', async () => {
    const slices: number[] = []
    let durable = 0
    let isSealing = true
    const fileSystem = diskWith({
      read: (fd, buffer, offset, length, position, done) => {
        if (!isSealing) return nodeFileSystem.read(fd, buffer, offset, length, position, done)
        slices.push(length)
        // The next slice is hashed once this record is durable.
        appender.append(envelope()).then(
          () => {
            durable++
            nodeFileSystem.read(fd, buffer, offset, length, position, done)
          },
          (error: Error) => done(error, 0),
        )
      },
    })
    const appender = appenderIn(dir.path, { fileSystem })
    await append(appender, 4_000)
    await appender.seal()
    isSealing = false
    expect(durable).to.equal(slices.length).and.to.be.at.least(10)
    expect(Math.max(...slices)).to.be.at.most(131_072)
    await appender.close()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(4_000 + durable)
  })

  it('seals lines longer than its chunks', async () => {
    const appender = appenderIn(dir.path)
    for (const length of [1, 131_000, 400_000, 5, 131_072]) {
      await appender.append(envelope({ agentVariables: { text: 'x'.repeat(length) } }))
    }
    await appender.close()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(5)
  })
})
