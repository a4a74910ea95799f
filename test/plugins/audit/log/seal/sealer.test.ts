import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Signer } from '@svc/core'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { COSIGNATURE_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { TreeStore } from '@svc/plugin-audit/internal/log/tree/tree-store'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import sinon from 'sinon'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { verifyInPython } from '../tools/verify/matrix/python.js'
import { appenderIn, DAY, fixedClock, linesOf, memoryLogger, signer } from '../writer/records.js'
import { append } from './rig.js'
import { sealedLog } from './sealed-log.js'

const BEFORE = '2026-11-20'

describe('the sealer', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  const sizes = () => sealedLog(dir.path).checkpoints.map(({ size }) => size)

  async function until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise((resolve) => setImmediate(resolve))
  }

  it('begins a log with its genesis and a checkpoint of it', async () => {
    const appender = appenderIn(dir.path, { config: { origin: 'audit.example.com/prod' } })
    await appender.ready()
    await appender.close()
    const { journal, checkpoints } = sealedLog(dir.path)
    expect(journal).to.have.length(1)
    expect(journal[0]).to.include({
      kind: 'genesis',
      format: 1,
      leaf: 0,
      origin: 'audit.example.com/prod',
      retention_days: 30,
      key_id: signer.keyId,
    })
    expect(checkpoints.map(({ size, day }) => [size, day])).to.deep.equal([[1, DAY]])
    const lock = readFileSync(path('.svc-lock'), 'latin1').split('\n')
    expect(lock[1]).to.equal(`${statSync(path('.svc-lock')).ino} ${journal[0]!['log_id']}`)
  })

  it('seals new records once, on request and on close', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 3)
    await appender.seal()
    await appender.seal()
    await append(appender, 4)
    await appender.close()
    expect(sizes()).to.deep.equal([1, 5, 10])
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(7)
  })

  it('states all ends, keys and the last step of the clock in the first seal of an hour', async () => {
    const clock = fixedClock(`${DAY}T12:00:00Z`)
    const appender = appenderIn(dir.path, { clock })
    await append(appender, 1, BEFORE)
    await appender.seal()
    await append(appender, 1)
    clock.ms += 59 * 60_000
    await appender.seal()
    await append(appender, 1)
    clock.ms += 60_000
    await appender.close()
    const [genesis, ...seals] = sealedLog(dir.path).journal
    expect(seals.map((seal) => seal['ends']?.map(([day]: [string]) => day))).to.deep.equal([
      [BEFORE],
      undefined,
      [BEFORE, DAY],
    ])
    const [span] = seals[2]!['keys']
    expect(span).to.deep.equal([genesis!['key'], 0, null, null])
    expect(seals[2]!['since']).to.equal(genesis!['at'])
  })

  for (const { title, at, intervalMs, early, rest } of [
    {
      title: 'at every interval while there are new records',
      at: '12:00:00',
      intervalMs: 2_000,
      early: 1_999,
      rest: 1,
    },
    {
      title: 'after midnight, whatever the interval',
      at: '23:59:59',
      intervalMs: 3_600_000,
      early: 999,
      rest: 101,
    },
  ]) {
    it(`seals ${title}`, async () => {
      const timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      try {
        const clock = fixedClock(`${DAY}T${at}.000Z`)
        const appender = appenderIn(dir.path, { clock, config: { checkpoints: { intervalMs } } })
        await appender.ready()
        await append(appender, 2)
        timers.tick(early)
        await appender.flush()
        expect(sizes()).to.deep.equal([1])
        timers.tick(rest)
        await until(() => appender.status().sealing?.size === 4)
        await appender.close()
        expect(sizes()).to.deep.equal([1, 4])
      } finally {
        timers.restore()
      }
    })
  }

  it('is absent with a signer without a public key, which may give its key any name, and a warning says so', async () => {
    const { publicKey } = signer
    const sign = (data: Uint8Array) => signer.sign(data)
    const without: Signer = { keyId: 'kms-1', sign, verify: () => true }
    const logger = memoryLogger()
    const start = (other: Signer, more: object = {}) =>
      appenderIn(dir.path, { signer: other, logger, config: { checkpoints: {} }, ...more })
    expect(() => start({ ...without, publicKey })).to.throw('signer has the keyId kms-1, but')
    const witnesses = [
      { url: 'http://127.0.0.1:9', key: formatVkey('w.example', COSIGNATURE_TYPE, publicKey) },
    ]
    for (const [what, more] of [
      ['witnesses', { config: { checkpoints: {}, witnesses } }],
      ['retiringSigner', { retiringSigner: signer }],
    ] as const) {
      expect(() => start(without, more)).to.throw(
        `${what} needs a journal, and a log whose signer has no publicKey`,
      )
    }
    const off = start(without)
    await append(off, 1)
    await off.close()
    expect(logger.entries.map(({ level, message }) => [level, message])).to.deep.equal([
      [
        'warn',
        'the signer has no publicKey: the audit log has no journal, and cannot show that it is complete',
      ],
    ])
    expect(readdirSync(dir.path)).to.not.include('audit.journal')
    const keys = [verifierFromPublicKey(publicKey)]
    const trusted = path('trusted-keys')
    writeFileSync(trusted, `${publicKeyLine(publicKey)}\n`)
    const [python] = verifyInPython([
      { folder: dir.path, keys: trusted, against: undefined, origin: undefined, allow_unsealed: false },
    ])
    const report = await verifyLog(dir.path, { keys })
    expect([report.verdict, python?.verdict]).to.deep.equal(['cannot_be_judged', 'cannot_be_judged'])
    expect(python?.reason).to.equal(report.reason)
    const [accepted] = verifyInPython([
      { folder: dir.path, keys: trusted, against: undefined, origin: undefined, allow_unsealed: true },
    ])
    expect((await verifyLog(dir.path, { keys, allowUnsealed: true })).verdict).to.equal('intact')
    expect(accepted?.verdict).to.equal('intact')
    expect(JSON.parse(linesOf(dir.path, `audit-${DAY}.ndjson`)[0]!)).to.not.have.any.keys('log_id', 'seq')
  })

  for (const intervalMs of [0, -1, Number.NaN, 2 ** 31]) {
    it(`refuses an interval of ${intervalMs} ms`, () => {
      expect(() => appenderIn(dir.path, { config: { checkpoints: { intervalMs } } })).to.throw(
        'checkpoints.intervalMs',
      )
    })
  }

  it('seals earlier days that grow, and a clock that goes backwards, into the same tree', async () => {
    const clock = fixedClock(`${DAY}T00:00:01Z`)
    const appender = appenderIn(dir.path, { clock })
    await append(appender, 1)
    await appender.seal()
    clock.ms -= 5_000
    await append(appender, 2, BEFORE)
    await appender.seal()
    clock.ms += 10_000
    await append(appender, 1)
    await append(appender, 1, BEFORE)
    await appender.close()
    const { sealed, checkpoints, journal } = sealedLog(dir.path)
    expect(Object.fromEntries(sealed)).to.deep.equal({ [BEFORE]: 3, [DAY]: 2 })
    expect(checkpoints.map(({ day, size }) => [day, size])).to.deep.equal([
      [BEFORE, 6],
      [DAY, 1],
      [DAY, 3],
      [DAY, 9],
    ])
    expect(journal.at(-1)!['ranges'].map(([day]: [string]) => day)).to.deep.equal([BEFORE, DAY])
    const again = appenderIn(dir.path, { clock })
    await again.ready()
    await again.close()
    expect(sealedLog(dir.path).size).to.equal(9)
  })

  it('resumes to the tree of a complete rebuild, wherever it stopped', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.tuple(fc.integer({ min: 1, max: 400 }), fc.constantFrom('keep', 'remove', 'garble', 'cut')),
          { minLength: 1, maxLength: 6 },
        ),
        async (stops) => {
          for (const name of readdirSync(dir.path)) rmSync(path(name), { recursive: true })
          let records = 0
          for (const [count, tree] of stops) {
            const appender = appenderIn(dir.path)
            await append(appender, count)
            await appender.close()
            records += count
            expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(records)
            expectTreeFiles()
            const file = path('tree/0/0')
            if (tree === 'remove') rmSync(path('tree'), { recursive: true })
            if (tree === 'garble') writeFileSync(file, Buffer.alloc(statSync(file).size, 7))
            if (tree === 'cut') truncateSync(file, statSync(file).size >> 1)
          }
        },
      ),
      { numRuns: 12 },
    )
  })

  /** Every node of the tree files leads to the newest root. */
  function expectTreeFiles(): void {
    const { size, checkpoints } = sealedLog(dir.path)
    const root = new TreeStore(dir.path, nodeFileSystem).range(size)?.root() ?? ''
    expect(Buffer.from(root, 'binary').toString('base64')).to.equal(checkpoints.at(-1)?.root)
  }

  it('excludes a torn line at the end of the log', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 2)
    appendFileSync(path(`audit-${DAY}.ndjson`), '{"torn":')
    await appender.seal()
    await appender.close()
    const log = path(`audit-${DAY}.ndjson`)
    writeFileSync(log, readFileSync(log, 'utf8').replace(/[^\n]+$/, ''))
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2)
  })

  it('seals an open log without new records once a day, to show that its clock runs evenly', async () => {
    const clock = fixedClock()
    const appender = appenderIn(dir.path, { clock })
    await append(appender, 1)
    await appender.seal()
    for (let hour = 0; hour < 51; hour++) {
      clock.ms += 3_600_000
      await appender.seal()
    }
    await appender.close()
    const { journal } = sealedLog(dir.path)
    expect(journal.slice(2).map((line) => line['ranges'])).to.deep.equal([[], []])
    expect(journal.at(-1)!['since']).to.equal(journal[0]!['at'])
  })

  it('adds nothing if nothing was appended', async () => {
    const first = appenderIn(dir.path)
    await first.ready()
    await first.close()
    const before = readFileSync(path('audit.journal'))
    const second = appenderIn(dir.path)
    await second.ready()
    await second.close()
    expect(readFileSync(path('audit.journal'))).to.deep.equal(before)
    expect(existsSync(path(`audit-${DAY}.checkpoint`))).to.equal(true)
    expect(sizes()).to.deep.equal([1])
  })
})
