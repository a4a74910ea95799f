import { closeSync, openSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, fixedClock, linesOf, signer, spansOf } from './records.js'
import { startWriter } from './writers.js'

const locks = createRequire(createRequire(import.meta.url).resolve('@svc/plugin-audit'))(
  'fs-native-extensions',
)

describe('several writers on one directory', () => {
  const dir = temporaryDir()

  it('in one process interleave complete lines', async () => {
    const appenders = Array.from({ length: 3 }, () => appenderIn(dir.path))
    const records = Array.from({ length: 90 }, () => envelope({ nodeId: 'n', agentRef: 'r' }))
    await Promise.all(records.map((record, i) => appenders[i % 3]?.append(record)))
    await Promise.all(appenders.map((appender) => appender.close()))
    expect(spansOf(dir.path).sort()).to.deep.equal(records.map((record) => record.span_id).sort())
    expect(linesOf(dir.path, `agents/n/${DAY}/r.ndjson`)).to.deep.equal(
      linesOf(dir.path, `audit-${DAY}.ndjson`),
    )
  })

  it('lose no acknowledged record when one is killed at any moment', async function () {
    this.timeout(60_000)
    const [moment = 0] = fc.sample(fc.integer({ min: 1, max: 400 }), { numRuns: 1 })
    const total = 500
    const victim = startWriter(dir.path, {
      name: 'c0',
      total,
      onAcknowledged: (count) => {
        if (count === moment) victim.child.kill('SIGKILL')
      },
    })
    const others = ['a0', 'b0'].map((name) => startWriter(dir.path, { name, total }))
    await Promise.all([victim.ended, ...others.map((each) => each.close())])

    const after = appenderIn(dir.path)
    await after.ready()
    await after.flush()
    await after.close()
    const spans = spansOf(dir.path)
    expect(new Set(spans).size, `no doubled line (killed at ${moment})`).to.equal(spans.length)
    for (const each of [victim, ...others]) expect(spans).to.include.members(each.acknowledged)
    expect(spans.filter((span) => !span.startsWith('c0'))).to.have.length(2 * total)
    const report = await verifyLog(dir.path, { keys: [verifierFromPublicKey(signer.publicKey)] })
    expect(report).to.deep.include({ verdict: 'intact', failures: [], tornTails: [] })
    const daily = linesOf(dir.path, `audit-${DAY}.ndjson`)
    for (const ref of ['r0', 'r1', 'r2']) {
      const own = daily.filter((line) => line.includes(`"agentRef":"${ref}"`))
      expect(linesOf(dir.path, `agents/n/${DAY}/${ref}.ndjson`), ref).to.deep.equal(own)
    }
  })

  it('wait for a stuck holder of the lock without blocking, report it, and continue when it is released', async () => {
    const clock = fixedClock()
    const appender = appenderIn(dir.path, { clock, limits: { lockWaitMs: 5_000 } })
    await appender.ready()
    await appender.flush()
    const holder = openSync(join(dir.path, '.svc-lock'), 'r+')
    expect(locks.tryLock(holder)).to.equal(true)
    let resolved = false
    const appended = appender.append(envelope()).then(() => {
      resolved = true
    })
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect([resolved, appender.status().writable]).to.deep.equal([false, true])
    clock.ms += 5_000
    expect(appender.status()).to.have.nested.property('error.code', 'lock_failed')
    closeSync(holder)
    await appended
    expect(appender.status().writable).to.equal(true)
    await appender.close()
    expect(spansOf(dir.path)).to.have.length(1)
  })

  it('leave no files but the log, its checkpoints and the locks', async () => {
    const appender = appenderIn(dir.path)
    await appender.append(envelope())
    await appender.seal()
    await appender.close()
    expect(readdirSync(dir.path).sort()).to.deep.equal([
      '.svc-lock',
      '.svc-seal-lock',
      `audit-${DAY}.checkpoint`,
      `audit-${DAY}.ndjson`,
      'audit.journal',
      'public-keys',
      'tree',
    ])
  })
})
