import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, diskWith, envelope, ioError, linesOf, recordsOf, spansOf } from './records.js'

const agentFile = (node: string, ref: string) => `agents/${node}/${DAY}/${ref}.ndjson`

describe('per-agent logs', () => {
  const dir = temporaryDir()

  it('have the same lines as the daily log, one file per agent run', async () => {
    const appender = appenderIn(dir.path)
    for (let i = 0; i < 12; i++)
      void appender.append(envelope({ nodeId: `n${i % 2}`, agentRef: `r${i % 3}` }))
    await appender.flush()
    await appender.close()
    const daily = linesOf(dir.path, `audit-${DAY}.ndjson`)
    for (const [node, ref] of [
      ['n0', 'r0'],
      ['n1', 'r1'],
      ['n0', 'r2'],
    ] as const) {
      const own = daily.filter(
        (line) => line.includes(`"agentRef":"${ref}"`) && line.includes(`"nodeId":"${node}"`),
      )
      expect(linesOf(dir.path, agentFile(node, ref))).to.deep.equal(own)
    }
  })

  it('are written only when both nodeId and agentRef are present', async () => {
    const appender = appenderIn(dir.path)
    await appender.append(envelope({ nodeId: 'n' }))
    await appender.append(envelope({ agentRef: 'r', nodeId: null }))
    await appender.close()
    expect(readdirSync(dir.path)).not.to.include('agents')
  })

  it('keep few handles open, however many agents there are', async () => {
    let open = 0
    let most = 0
    const fds = new Set<number>()
    const fileSystem = diskWith({
      openSync: (path, flags, mode) => {
        const fd = nodeFileSystem.openSync(path, flags, mode)
        if (path.includes('/agents/') && path.endsWith('.ndjson')) {
          fds.add(fd)
          most = Math.max(most, ++open)
        }
        return fd
      },
      closeSync: (fd) => {
        if (fds.delete(fd)) open--
        nodeFileSystem.closeSync(fd)
      },
    })
    const appender = appenderIn(dir.path, { fileSystem, limits: { agentHandles: 5 } })
    const total = 40
    await Promise.all(
      Array.from({ length: 3 * total }, (_, i) =>
        appender.append(envelope({ nodeId: 'n', agentRef: `r${i % total}` })),
      ),
    )
    await appender.close()
    expect([most <= 6, open]).to.deep.equal([true, 0])
    for (let i = 0; i < total; i++) expect(spansOf(dir.path, agentFile('n', `r${i}`))).to.have.length(3)
  })

  it('never fail an append, and are repaired afterwards', async () => {
    let failing = true
    const agentFds = new Set<number>()
    const fileSystem = diskWith({
      openSync: (path, flags, mode) => {
        const fd = nodeFileSystem.openSync(path, flags, mode)
        if (path.includes('/agents/')) agentFds.add(fd)
        else agentFds.delete(fd)
        return fd
      },
      writeSync: (fd, buffer, offset, length, position) => {
        if (failing && agentFds.has(fd)) throw ioError('EIO')
        return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
      },
    })
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { fileSystem, onAsyncError: (error) => errors.push(error) })
    await appender.append(envelope({ nodeId: 'n', agentRef: 'r' }))
    expect(errors).not.to.deep.equal([])
    failing = false
    await appender.append(envelope({ nodeId: 'n', agentRef: 'r' }))
    await appender.close()
    const again = appenderIn(dir.path)
    await again.ready()
    await again.flush()
    await again.close()
    expect(linesOf(dir.path, agentFile('n', 'r'))).to.deep.equal(linesOf(dir.path, `audit-${DAY}.ndjson`))
  })

  describe('are repaired from the daily log at open', () => {
    const path = () => join(dir.path, agentFile('n', 'r'))

    for (const [title, damage] of [
      ['when the file is missing', () => rmSync(path())],
      ['when its end is missing', () => truncateSync(path(), 1_000)],
      ['when it ends in a torn line', () => writeFileSync(path(), `${readFileSync(path(), 'utf8')}{"torn`)],
      [
        'when a line in the middle is missing',
        () => {
          const lines = readFileSync(path(), 'utf8').split('\n')
          writeFileSync(path(), [...lines.slice(0, 3), ...lines.slice(4)].join('\n'))
        },
      ],
      ['when it is only zeros', () => writeFileSync(path(), Buffer.alloc(3_000))],
    ] as const) {
      it(title, async () => {
        const first = appenderIn(dir.path)
        for (let i = 0; i < 9; i++) {
          await first.append(envelope({ nodeId: 'n', agentRef: 'r' }))
          await first.append(envelope({ nodeId: 'n', agentRef: 'other' }))
        }
        await first.close()
        damage()
        const second = appenderIn(dir.path)
        await second.ready()
        await second.append(envelope({ nodeId: 'n', agentRef: 'r' }))
        await second.flush()
        await second.close()
        const own = linesOf(dir.path, `audit-${DAY}.ndjson`).filter((line) => line.includes('"agentRef":"r"'))
        expect(linesOf(dir.path, agentFile('n', 'r'))).to.deep.equal(own)
        expect(own).to.have.length(10)
      })
    }
  })

  for (const [by, isOpen] of [
    ['the next one', false],
    ['another one that only flushes', true],
  ] as const)
    it(`are repaired by ${by}, for an older day too, when a writer died between the logs of that day`, async () => {
      const first = appenderIn(dir.path)
      const days = ['2026-11-01', '2026-11-19', '2026-11-20', DAY]
      for (const day of days)
        await first.append(envelope({ ts: `${day}T10:00:00Z`, nodeId: 'n', agentRef: 'r' }))
      await first.close()
      const second = appenderIn(dir.path)
      if (isOpen) await second.ready()
      const path = join(dir.path, 'agents/n/2026-11-01/r.ndjson')
      const before = readFileSync(path, 'utf8')
      truncateSync(path, 0)
      // The mark that the writer sets in the lock file before it begins.
      const lock = openSync(join(dir.path, '.svc-lock'), 'r+')
      writeSync(lock, '2026-11-01     \n', 0)
      closeSync(lock)
      await second.ready()
      await second.flush()
      await second.close()
      expect(readFileSync(path, 'utf8')).to.equal(before)
      expect(readFileSync(join(dir.path, '.svc-lock'), 'utf8')).to.match(/^-/)
    })

  it('stay inside the directory whatever the ids are', async () => {
    const appender = appenderIn(join(dir.path, 'log'))
    for (const id of ['..', '../..', '/etc', 'a\0b', '.', '', '~']) {
      await appender.append(envelope({ nodeId: id, agentRef: id }))
    }
    await appender.close()
    expect(readdirSync(dir.path)).to.deep.equal(['log'])
    expect(readdirSync(join(dir.path, 'log', 'agents'))).to.have.length(7)
    expect(recordsOf(join(dir.path, 'log'))).to.have.length(7)
  })
})
