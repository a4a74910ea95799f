import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { type LegalHold, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, codeOf, DAY, diskWith, envelope, fixedClock, signer } from '../writer/records.js'
import { append, opened as openedIn, runEvenly } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

const OLD = '2026-11-18'
const NEXT = '2026-11-19'
const HOUR = 3_600_000

describe('removal by retention', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  const isThere = (day = OLD) => existsSync(path(`audit-${day}.ndjson`))

  /** Two old days with three records each, sealed, and a clock that has run evenly until `DAY`. */
  async function oldLog(options: Parameters<typeof appenderIn>[1] = {}) {
    const clock = fixedClock(`${OLD}T12:00:00Z`)
    const { config, ...rest } = options
    const appender = appenderIn(dir.path, { clock, ...rest, config: { retentionDays: 1, ...config } })
    await append(appender, 3, OLD)
    await append(appender, 3, NEXT)
    await appender.close()
    await runEvenly(dir.path, clock)
    return clock
  }

  const opened = (options: Parameters<typeof appenderIn>[1] = {}) =>
    openedIn(dir.path, options, ['info', 'warn', 'error'])

  it('leaves a cover and a line that take the place of the records', async () => {
    const clock = await oldLog()
    const { size } = sealedLog(dir.path)
    await opened({ clock })
    expect([isThere(OLD), isThere(NEXT)]).to.deep.equal([false, false])
    const after = sealedLog(dir.path)
    expect(after.journal.filter(({ leaf }) => leaf >= size).map(({ kind }) => kind)).to.deep.equal([
      'retention',
      'remove',
      'remove',
    ])
    const removed = after.journal.filter(({ kind }) => kind === 'remove')
    expect(removed.map(({ day, lines }) => [day, lines])).to.deep.equal([
      [OLD, 3],
      [NEXT, 3],
    ])
    // The tree can be rebuilt from the covers.
    rmSync(path('tree'), { recursive: true })
    const appender = appenderIn(dir.path, { clock })
    await append(appender, 2)
    await appender.close()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2)
  })

  it('uses the retention in force, which the journal states before it removes or keeps a day', async () => {
    const clock = await oldLog({ config: { retentionDays: 5 } })
    await opened({ clock, config: { retentionDays: 3 } })
    expect(isThere()).to.equal(true)
    await opened({ clock, config: { retentionDays: 2 } })
    expect([isThere(OLD), isThere(NEXT)]).to.deep.equal([false, true])
    await opened({ clock, config: { retentionDays: 3 } })
    const stated = journalOf(dir.path).flatMap(({ kind, days, day }) =>
      ['retention', 'remove'].includes(kind) ? [days ?? day] : [],
    )
    expect(stated).to.deep.equal([9, 3, 2, OLD, 3])
    const report = await verifyLog(dir.path, { keys: [verifierFromPublicKey(signer.publicKey)] })
    expect(report.failures).to.deep.equal([])
  })

  it('rejects what is appended to a removed day later, by any writer', async () => {
    const clock = await oldLog()
    const running = appenderIn(dir.path, { clock, config: { retentionDays: 9 } })
    await append(running, 1, OLD)
    await running.seal()
    await opened({ clock })
    expect(isThere()).to.equal(false)
    expect(await codeOf(running.append(envelope({ ts: `${OLD}T10:00:00Z` })))).to.equal('day_removed')
    expect(running.status().writable).to.equal(true)
    await append(running, 1)
    await running.close()
    expect(isThere()).to.equal(false)
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(1)
  })

  it('keeps a day that is not as it was sealed, and appends one fault line', async () => {
    const clock = await oldLog()
    const bytes = readFileSync(path(`audit-${OLD}.ndjson`))
    bytes[30]! ^= 1
    writeFileSync(path(`audit-${OLD}.ndjson`), bytes)
    expect(await opened({ clock })).to.include(
      `the log of ${OLD} is past its retention and kept: it is not as it was sealed`,
    )
    await opened({ clock })
    expect([isThere(OLD), isThere(NEXT)]).to.deep.equal([true, false])
    const errors = journalOf(dir.path).filter(({ kind }) => kind === 'fault')
    expect(errors.map(({ day, sealed, resume }) => [day, sealed === resume])).to.deep.equal([[OLD, true]])
  })

  for (const [title, hold, kept] of [
    ['all days of a range', { from: OLD, to: OLD }, [OLD]],
    ['all days', {}, [OLD, NEXT]],
    ['the days with records of a tenant', { tenant: 'acme' }, [OLD, NEXT]],
    ['no days without records of the tenant', { tenant: 'other' }, []],
  ] as [string, LegalHold, string[]][]) {
    it(`is suspended by a hold for ${title}`, async () => {
      const clock = await oldLog()
      await opened({ clock, config: { hold: [hold] } })
      expect([OLD, NEXT].filter(isThere)).to.deep.equal(kept)
      sealedLog(dir.path)
    })
  }

  it('is suspended by a step of the clock, until the clock has run evenly for seven days', async () => {
    const clock = fixedClock(`${OLD}T12:00:00Z`)
    const first = appenderIn(dir.path, { clock, config: { retentionDays: 1 } })
    await append(first, 3, OLD)
    await first.close()
    clock.ms += 40 * 24 * HOUR
    expect((await opened({ clock })).join()).to.include('the clock stepped by more than 36 hours')
    const running = appenderIn(dir.path, { clock, config: { retentionDays: 90 } })
    await append(running, 1)
    for (let day = 0; day < 7; day++) {
      await running.seal()
      expect((await opened({ clock })).join()).to.include('files past their retention are kept')
      clock.ms += 24.5 * HOUR
    }
    await running.seal()
    await running.close()
    await opened({ clock })
    expect(isThere()).to.equal(false)
    sealedLog(dir.path)
  })

  it('does not wait for a process that was stopped for a night', async () => {
    const clock = await oldLog()
    clock.ms += 12 * HOUR
    await opened({ clock })
    expect(isThere()).to.equal(false)
  })

  it('is completed after a writer that died at any call of it', async () => {
    const calls = await callsOfRemoval(undefined)
    expect(calls).to.be.above(10)
    for (let dying = 1; dying <= calls; dying++) {
      for (const name of readdirSync(dir.path)) rmSync(path(name), { recursive: true })
      await callsOfRemoval(dying)
      expect([isThere(OLD), isThere(NEXT)], `died at call ${dying}`).to.deep.equal([false, false])
      const { journal } = sealedLog(dir.path)
      expect(journal.filter(({ kind }) => kind === 'remove').map(({ day }) => day)).to.have.members([
        OLD,
        NEXT,
      ])
      expect(readdirSync(dir.path).filter((name) => name.endsWith('.cover'))).to.have.length(2)
    }
  }).timeout(60_000)

  /** Calls that change the disk during an opening that removes two days; from `dying` on all fail. Then opens again. */
  async function callsOfRemoval(dying: number | undefined): Promise<number> {
    const clock = await oldLog()
    let calls = 0
    const die = () => {
      calls++
      if (dying !== undefined && calls >= dying) throw new Error('the writer is dead')
    }
    const port = nodeFileSystem
    const counted =
      <A extends unknown[], R>(call: (...args: A) => R) =>
      (...args: A) => {
        die()
        return call(...args)
      }
    const fileSystem = diskWith({
      writeSync: counted(port.writeSync),
      ftruncateSync: counted(port.ftruncateSync),
      renameSync: counted(port.renameSync),
      rmSync: counted(port.rmSync),
    })
    const appender = appenderIn(dir.path, {
      clock,
      fileSystem,
      onAsyncError: () => undefined,
      config: { retentionDays: 1, minFreeBytes: 0 },
    })
    await appender.ready().catch(() => undefined)
    await appender.close().catch(() => undefined)
    if (dying !== undefined) await opened({ clock })
    return calls
  }
})
