import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { DAY, findEverywhere, keyLine } from '../evidence/evidence-rig.js'
import { pageOfLines, signatureOf } from '../evidence/forged-lines.js'
import { forgedVotes } from './forged-votes.js'
import { verifyInPython } from './matrix/python.js'

describe('a vote with a passkey, in a log that is signed again', function () {
  this.timeout(60_000)
  const dir = temporaryDir()
  const all = [...forgedVotes()]
  const lines = all.map(({ record }, at) => {
    const numbered = { ...record, seq: `aaaaaaaaaaaaaaaa:${at}` }
    return canonicalize({ ...numbered, sig: signatureOf(canonicalize(numbered)) })
  })

  it('is red for both verifiers of logs once anything of it is changed', async () => {
    const folder = join(dir.path, 'log')
    mkdirSync(folder)
    const log = new LogBuilder(folder)
    log.append(DAY, lines)
    log.seal()
    log.finish()
    const keys = join(dir.path, 'keys')
    writeFileSync(keys, `${keyLine}\n`)
    const job = { folder, keys, against: undefined, origin: undefined, allow_unsealed: false }
    const [python] = verifyInPython([job])
    const report = await verifyLog(folder, { threads: 1 })
    const badLines = (failures: readonly { line: number; kind: string }[]) =>
      new Set(failures.map(({ line }) => line))
    const [inNode, inPython] = [badLines(report.failures), badLines(python!.failures)]
    for (const [at, { title, isGood }] of all.entries()) {
      expect(inNode.has(at + 1), title).to.equal(!isGood)
      expect(inPython.has(at + 1), `${title}, in Python`).to.equal(!isGood)
    }
  })

  it('is red in evidence, for the page too', async () => {
    const [found] = await findEverywhere(dir.path, [{ page: pageOfLines(lines) }])
    const expected = all.flatMap(({ isGood }, at) => (isGood ? [] : [`records ${at + 1}`]))
    expect(found).to.deep.equal(expected.sort())
  })
})
