import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, signer } from '../../writer/records.js'

const keys = [verifierFromPublicKey(signer.publicKey)]
const log = `audit-${DAY}.ndjson`

describe('verifyLog on all cores', () => {
  const dir = temporaryDir()

  it('finds the same as on one core, in files of many chunks', async function () {
    this.timeout(60_000)
    const appender = appenderIn(dir.path)
    const text = 'x'.repeat(20_000)
    for (let i = 0; i < 500; i++) {
      await appender.append(
        envelope({ agentVariables: { text: i % 3 === 0 ? text.repeat(1 + (i % 5)) : text } }),
      )
      if (i % 100 === 0) await appender.seal()
    }
    await appender.close()
    const lines = readFileSync(join(dir.path, log), 'utf8').split('\n')
    lines[321] = lines[321]!.replace('acme', 'evil')
    lines.splice(77, 3)
    writeFileSync(join(dir.path, log), lines.join('\n'))
    const seen: number[] = []
    const onProgress = ({ bytes, totalBytes }: { bytes: number; totalBytes: number }) =>
      seen.push(bytes / totalBytes)
    const [one, many] = [
      await verifyLog(dir.path, { keys, threads: 1 }),
      await verifyLog(dir.path, { keys, threads: 3, onProgress }),
    ]
    expect(many).to.deep.equal(one)
    expect(many.tampering).to.deep.equal({ deleted: 3, edited: 1 })
    expect(many.failures.map(({ line, kind }) => `${line}: ${kind}`)).to.deep.equal([
      '319: bad_signature',
      '78: deleted',
    ])
    expect(seen.at(-1)).to.equal(1)
    expect(seen).to.deep.equal(seen.toSorted((a, b) => a - b))
  })
})

describe('verifyLog on a log that lacks a large part', () => {
  const dir = temporaryDir()

  // The tree is over lines, whatever they say, so that short ones serve as well.
  function sealedLines(count: number): string[] {
    const lines = Array.from({ length: count }, (_, i) => `line ${i + 1}`)
    const builder = new LogBuilder(dir.path)
    builder.append(DAY, lines)
    builder.seal()
    builder.finish()
    return lines
  }

  it('reports exactly which lines, also far apart', async () => {
    const lines = sealedLines(40_000)
    const changed = lines.toSpliced(30_000, 5_000).with(29_000, 'new').toSpliced(100, 2_000)
    writeFileSync(join(dir.path, log), `${changed.join('\n')}\n`)
    const report = await verifyLog(dir.path, { keys, fast: true })
    expect(report.failures.map(({ line, kind, message }) => `${line}: ${kind}: ${message}`)).to.deep.equal([
      '101: deleted: 2000 records are missing before this line, sealed as lines 101 to 2100',
      '27001: edited: not the record that was sealed as line 29001',
      '28001: deleted: 5000 records are missing before this line, sealed as lines 30001 to 35000',
    ])
    expect(report.tampering).to.deep.equal({ deleted: 7_000, edited: 1 })
  })

  it('names the lines that are missing, however many', async function () {
    this.timeout(60_000)
    const lines = sealedLines(266_000)
    writeFileSync(join(dir.path, log), `${lines.toSpliced(100, 265_000).join('\n')}\n`)
    const report = await verifyLog(dir.path, { keys, fast: true })
    expect(report.failures.map(({ line, kind }) => `${line}: ${kind}`)).to.deep.equal(['101: deleted'])
    expect(report.tampering).to.deep.equal({ deleted: 265_000 })
  })
})
