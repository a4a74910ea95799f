import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { DAY, signer } from '../../writer/records.js'

const LINES = 300
const FIRST_RUN = 256
const LINES_PER_NOTE = 5
const file = `audit-${DAY}.checkpoint`
const keys = [verifierFromPublicKey(signer.publicKey)]

describe('verifyLog on many checkpoints', () => {
  const dir = temporaryDir()

  /** Replaces the signatures of the notes by others of the same length; `note` 0 is that of the genesis. */
  function forge(which: (note: number) => boolean): void {
    const notes = readFileSync(join(dir.path, file), 'utf8').split(/(?<=\n)(?=\S*svc-audit)/)
    const changed = notes.map((note, at) =>
      which(at) ? note.replace(/.{20}(?=.{8}\n$)/, 'A'.repeat(20)) : note,
    )
    writeFileSync(join(dir.path, file), changed.join(''))
  }

  beforeEach(function () {
    this.timeout(60_000)
    const log = new LogBuilder(dir.path)
    log.record(DAY)
    log.seal()
    while (log.size < LINES) log.seal()
    log.finish()
  })

  for (const fast of [false, true]) {
    const mode = fast ? 'fast' : 'full'

    it(`checks the newest signature of each 256 leaves, ${mode}`, async () => {
      // The record takes a leaf, so that the note at index `n` ends in leaf `n + 1`.
      forge((note) => note !== FIRST_RUN - 2 && note !== LINES - 2)
      const report = await verifyLog(dir.path, { keys, fast })
      expect(report.failures).to.deep.equal([])
      expect(report).to.include({ verdict: 'intact', checkpoints: LINES - 1 })
      expect(report.head?.size).to.equal(LINES)
    })

    it(`finds a forged signature if the ones after it are of other leaves, ${mode}`, async () => {
      forge((note) => note === FIRST_RUN - 2)
      const report = await verifyLog(dir.path, { keys, fast })
      expect(report.failures.map(({ line, kind }) => `${line}: ${kind}`)).to.deep.equal([
        `${1 + (FIRST_RUN - 2) * LINES_PER_NOTE}: bad_signature`,
        '0: missing_checkpoint',
      ])
    })
  }

  it('finds every forged signature if none vouches', async () => {
    forge((note) => note >= FIRST_RUN - 2)
    const report = await verifyLog(dir.path, { keys })
    expect(report.failureCounts['bad_signature']).to.equal(LINES - FIRST_RUN + 1)
  })
})
