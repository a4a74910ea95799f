import { closeSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { DirectoryLock } from '@svc/plugin-audit/internal/log/files/directory-lock'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { LogTree } from '@svc/plugin-audit/internal/log/seal/log-tree'
import { type SvcAppender, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../../../support/property-runs.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, fixedClock, memoryLogger, signer } from '../writer/records.js'
import { startWriter } from '../writer/writers.js'
import { append } from './rig.js'
import { sealedLog } from './sealed-log.js'

const locks = createRequire(createRequire(import.meta.url).resolve('@svc/plugin-audit'))(
  'fs-native-extensions',
)

describe('a clean close', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  /** Records of the log, and those in no checkpoint. */
  async function counts() {
    const report = await verifyLog(dir.path, { keys: [verifierFromPublicKey(signer.publicKey)] })
    expect(report).to.deep.include({ verdict: 'intact', failures: [] })
    return { records: report.records, unsealed: report.unsealed }
  }

  it('of the processes of one log leaves nothing unsealed, whichever of them seals', async function () {
    this.timeout(60_000)
    const writers = ['a0', 'b0', 'c0'].map((name) => startWriter(dir.path, { name, total: 100 }))
    await Promise.all(writers.map(({ written }) => written))
    expect(await Promise.all(writers.map((each) => each.close()))).to.deep.equal([0, 0, 0])
    expect(await counts()).to.deep.equal({ records: 300, unsealed: 0 })
  })

  it('of each writer seals its records, in whatever order the writers open, append and close', async function () {
    this.timeout(60_000)
    const step = fc.record({
      writer: fc.nat(3),
      action: fc.constantFrom('append', 'append', 'close', 'seal'),
    })
    let records = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 16 }), async (steps) => {
        const open = new Map<number, SvcAppender>()
        for (const { writer, action } of steps) {
          const appender = open.get(writer) ?? appenderIn(dir.path)
          open.set(writer, appender)
          await appender.ready()
          if (action === 'append') {
            await append(appender, 2)
            records += 2
          } else if (action === 'seal') await appender.seal()
          else {
            await appender.close()
            open.delete(writer)
            expect(await counts()).to.deep.equal({ records, unsealed: 0 })
          }
        }
        await Promise.all([...open.values()].map((each) => each.close()))
        expect(await counts()).to.deep.equal({ records, unsealed: 0 })
      }),
      { numRuns: propertyRuns(10) },
    )
  })

  it('seals although the process that seals does not', async () => {
    const holder = openSync(path('.svc-seal-lock'), 'w')
    expect(locks.tryLock(holder)).to.equal(true)
    try {
      const appender = appenderIn(dir.path)
      await append(appender, 3)
      await appender.seal()
      expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(undefined)
      await appender.close()
      expect(await counts()).to.deep.equal({ records: 3, unsealed: 0 })
    } finally {
      closeSync(holder)
    }
  })

  it('goes on until it is faster than the others', async () => {
    const clock = fixedClock()
    const lock = new DirectoryLock(dir.path, nodeFileSystem, clock)
    let losses = 0
    const losing = {
      keyId: signer.keyId,
      publicKey: signer.publicKey,
      verify: () => true,
      sign: () => expect.fail('it signs asynchronously'),
      signAsync: async (data: Uint8Array) => {
        // More often than one seal is tried.
        if (Buffer.from(data).includes('"kind":"seal"') && losses < 40) {
          losses++
          const logger = memoryLogger()
          const other = await LogTree.load({
            dir: dir.path,
            port: nodeFileSystem,
            lock,
            clock,
            logger,
            signers: [signer],
          })
          await other.append({ kind: 'seal', ranges: [] })
          await other.checkpoint()
        }
        return signer.sign(data)
      },
    }
    try {
      const appender = appenderIn(dir.path, { signer: losing, onAsyncError: () => undefined })
      await append(appender, 3)
      await appender.close()
      expect(losses).to.equal(40)
      expect(await counts()).to.deep.equal({ records: 3, unsealed: 0 })
    } finally {
      lock.close()
    }
  })

  it('ends after a limit and reports the files that are not sealed', async () => {
    const errors: { code?: string; message: string }[] = []
    const onAsyncError = (error: Error) => errors.push(error)
    const appender = appenderIn(dir.path, { onAsyncError, limits: { sealOnCloseMs: 50 } })
    await append(appender, 3)
    await appender.flush()
    const bytes = nodeFileSystem.statSync(path(`audit-${DAY}.ndjson`))?.size
    const stuck = openSync(path('.svc-lock'), 'r+')
    expect(locks.tryLock(stuck)).to.equal(true)
    await appender.close()
    expect(errors.map(({ code }) => code)).to.deep.equal(['not_sealed'])
    expect(errors[0]?.message).to.include(`${bytes} bytes of audit-${DAY}.ndjson`)
    expect(appender.status().sealing?.error).to.equal(errors[0])
    closeSync(stuck)
    const next = appenderIn(dir.path)
    await next.ready()
    await next.close()
    expect(await counts()).to.deep.equal({ records: 3, unsealed: 0 })
  })

  it('is not needed for the records of a process that was killed: the next one seals them when it opens the log', async function () {
    this.timeout(60_000)
    const victim = startWriter(dir.path, { name: 'c0', total: 50 })
    await victim.written
    victim.child.kill('SIGKILL')
    await victim.ended
    const records = 50
    expect(await counts()).to.deep.equal({ records, unsealed: records })
    await using next = appenderIn(dir.path)
    await next.ready()
    expect(await counts()).to.deep.equal({ records, unsealed: 0 })
  })
})
