import { existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, fixedClock, memoryLogger } from '../writer/records.js'
import { append } from './rig.js'
import { journalOf } from './sealed-log.js'

const OLD = '2026-11-18'
const HOUR = 3_600_000
const DAMAGE = 'tree/0/0, or a file of the tree above it, is damaged, and '

describe('a log whose tree is damaged and whose sealed records were changed', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  const log = path.bind(undefined, `audit-${OLD}.ndjson`)
  const faultLines = () => journalOf(dir.path).filter(({ kind }) => kind === 'fault')

  /** Sealed records of an old day whose retention has ended; with 256 the hashes of each have hashes above them. */
  async function oldLog(records = 300) {
    const clock = fixedClock(`${OLD}T12:00:00Z`)
    const appender = appenderIn(dir.path, { clock, config: { retentionDays: 1 } })
    await append(appender, records, OLD)
    await appender.close()
    for (; clock.ms < Date.parse(`${DAY}T12:00:00Z`); clock.ms += 25 * HOUR) {
      await using idle = appenderIn(dir.path, { clock, config: { retentionDays: 9 } })
      await idle.ready()
    }
    return clock
  }

  /** The hash of a record, of which the paths of later leaves hold nothing. */
  function damageTree(): void {
    const hashes = readFileSync(path('tree/0/0'))
    hashes.fill(1, 32, 64)
    writeFileSync(path('tree/0/0'), hashes)
  }

  function edit(change: (lines: string[]) => void): void {
    const lines = readFileSync(log(), 'utf8').split('\n')
    change(lines)
    writeFileSync(log(), lines.join('\n'))
  }

  /** Opens the log, which applies retention; returns what was reported. */
  async function opened(clock: ReturnType<typeof fixedClock>): Promise<string[]> {
    const logger = memoryLogger()
    const errors: string[] = []
    const onAsyncError = ({ message }: Error) => errors.push(message)
    const appender = appenderIn(dir.path, { clock, logger, onAsyncError, config: { retentionDays: 1 } })
    await appender.ready().catch(onAsyncError)
    await appender.close()
    return [...errors, ...logger.entries.filter(({ level }) => level === 'warn').map((e) => e.message)]
  }

  it('appends a fault line for a day with a wrong line, and keeps that day', async () => {
    const clock = await oldLog()
    damageTree()
    edit((lines) => {
      lines[1] = lines[1]!.replace('"ok"', '"ko"')
    })
    expect(await opened(clock)).to.deep.equal([
      `the log of ${OLD} is past its retention and kept: it is not as it was sealed`,
      `${DAMAGE}cannot be rebuilt: the log of ${OLD} was changed`,
    ])
    expect(faultLines().map(({ day }) => day)).to.deep.equal([OLD])
    await opened(clock)
    expect([faultLines().length, existsSync(log())]).to.deep.equal([1, true])
  })

  it('is refused, with what is damaged, if each line is valid by itself', async () => {
    const clock = await oldLog()
    damageTree()
    edit((lines) => {
      lines.splice(0, 2, lines[1]!, lines[0]!)
    })
    const [message] = await opened(clock)
    expect(message).to.include(`the log cannot be continued: ${DAMAGE}the logs do not have what it had`)
    expect(message).to.include(`sealed records of ${OLD} were changed`)
    expect([faultLines().length, existsSync(log())]).to.deep.equal([0, true])
  })

  it('is refused, with what is damaged, if the tree does not lead to the newest checkpoint', async () => {
    const clock = await oldLog(3)
    damageTree()
    edit((lines) => {
      lines[1] = lines[1]!.replace('"ok"', '"ko"')
    })
    const [message] = await opened(clock)
    expect(message).to.include('the tree does not lead to the newest checkpoint, and the logs do not have')
    expect(message).to.include(`sealed records of ${OLD} were changed`)
    expect([faultLines().length, existsSync(log())]).to.deep.equal([0, true])
  })

  it('is sealed further after the fault line of a truncated day', async () => {
    const clock = await oldLog()
    damageTree()
    truncateSync(log(), readFileSync(log()).indexOf('\n') + 1)
    const logger = memoryLogger()
    const errors: string[] = []
    const onAsyncError = ({ message }: Error) => errors.push(message)
    const appender = appenderIn(dir.path, { clock, logger, onAsyncError, config: { retentionDays: 30 } })
    await append(appender, 2)
    await appender.seal()
    expect(appender.status().sealing?.error).to.equal(undefined)
    await appender.close()
    expect(errors.join()).to.match(/was changed after it was sealed.*sealing continues/)
    expect(faultLines().map(({ day }) => day)).to.deep.equal([OLD])
    const ranges = journalOf(dir.path).flatMap((line) => (line['ranges'] as unknown[][]) ?? [])
    expect(ranges.map(([day]) => day)).to.include(DAY)
  })
})
