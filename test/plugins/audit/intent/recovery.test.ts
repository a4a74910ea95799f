import {
  appendFileSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { OUTCOME_UNKNOWN } from '@svc/plugin-audit/internal/intent/entry'
import { IntentJournal } from '@svc/plugin-audit/internal/intent/journal'
import { IntentRecovery } from '@svc/plugin-audit/internal/intent/recovery'
import { IntentTracker } from '@svc/plugin-audit/internal/intent/tracker'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import type { AuditEnvelope, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, memoryLogger, recordsOf, signer, spansOf } from '../log/writer/records.js'

const { tryLock } = createRequire(createRequire(import.meta.url).resolve('@svc/plugin-audit'))(
  'fs-native-extensions',
)

describe('recovery of intents of dead processes', () => {
  const dir = temporaryDir()
  let appender: SvcAppender
  beforeEach(() => {
    appender = appenderIn(dir.path)
  })
  afterEach(() => appender.close())

  const log = { signer, logId: () => null, trustedKeys: () => Promise.resolve([signer]) }
  const journals = () => readdirSync(join(dir.path, 'intents')).filter((name) => name.endsWith('.journal'))
  const only = () => join(dir.path, 'intents', journals()[0] ?? '')
  const parts = (append = (record: AuditEnvelope) => appender.append(record), logger = memoryLogger()) => ({
    dir: dir.path,
    port: nodeFileSystem,
    logger,
    clock: { monotonic: () => 0 },
    log,
    keyId: signer.keyId,
    append,
    refusedRecord: () => expect.fail('nothing is refused'),
  })
  const made = async (recovery: IntentRecovery) => {
    const recovered = await recovery.recover()
    expect(recovered).to.include({ made: recovered.made }).and.deep.include({ refused: [], failures: [] })
    return recovered.made
  }

  /** A journal with these intents open, as a process that died leaves it. */
  async function left(...records: AuditEnvelope[]): Promise<void> {
    const journal = new IntentJournal(dir.path, nodeFileSystem, log)
    await Promise.all(records.map((record) => journal.begin(record)))
    await journal.close()
  }

  it('writes records with an unknown outcome and removes the journal', async () => {
    const record = envelope({
      agentRef: 'run',
      nodeId: 'n',
      key_id: 'ed25519:of-the-dead',
      error: 'x',
      status: 'ok',
    })
    await left(record)
    expect(await made(new IntentRecovery(parts()))).to.equal(1)
    expect(recordsOf(dir.path)).to.deep.equal([
      {
        ...record,
        status: 'error',
        error: OUTCOME_UNKNOWN,
        sent: 'unknown',
        output_sha256: null,
        key_id: signer.keyId,
      },
    ])
    expect(journals()).to.deep.equal([])
    expect(await made(new IntentRecovery(parts()))).to.equal(0)
  })

  it('ignores journals of living processes', async () => {
    const journal = new IntentJournal(dir.path, nodeFileSystem, log)
    await journal.begin(envelope())
    expect(await made(new IntentRecovery(parts()))).to.equal(0)
    expect(journals()).to.have.length(1)
    await journal.close()
    expect(await made(new IntentRecovery(parts()))).to.equal(1)
  })

  it('writes no second record if the process died before it noted the outcome', async () => {
    const [recorded, lost] = [envelope(), envelope()]
    await left(recorded, lost)
    await appender.append(recorded)
    expect(await made(new IntentRecovery(parts()))).to.equal(1)
    expect(spansOf(dir.path)).to.deep.equal([recorded.span_id, lost.span_id])
    expect(recordsOf(dir.path).map(({ error }) => error)).to.deep.equal([undefined, OUTCOME_UNKNOWN])
  })

  it('does not mistake a record that mentions the span for the record of the call', async () => {
    const lost = envelope()
    await left(lost)
    await appender.append(envelope({ agentVariables: { span_id: lost.span_id, trace_id: lost.trace_id } }))
    await appender.append(envelope({ trace_id: 'a0', span_id: lost.span_id }))
    expect(await made(new IntentRecovery(parts()))).to.equal(1)
  })

  it('writes no second record if an earlier recovery died before it removed the journal', async () => {
    await left(envelope(), envelope())
    const path = only()
    const content = readFileSync(path)
    await new IntentRecovery(parts()).recover()
    writeFileSync(path, content)
    expect(await made(new IntentRecovery(parts()))).to.equal(0)
    expect(spansOf(dir.path)).to.have.length(2)
    expect(journals()).to.deep.equal([])
  })

  it('keeps the journal for a retry if a record could not be written', async () => {
    await left(envelope(), envelope())
    let broken = true
    const append = (record: AuditEnvelope) =>
      broken ? Promise.reject(new Error('disk full')) : appender.append(record)
    const orphans = new IntentRecovery(parts(append))
    const { failures } = await orphans.recover()
    expect(failures.map(String)).to.deep.equal(['Error: disk full'])
    expect(journals()).to.have.length(1)
    broken = false
    expect(await made(orphans)).to.equal(2)
  })

  it('does nothing while another process recovers', async () => {
    await left(envelope())
    const holder = openSync(join(dir.path, 'intents/.lock'), 'a+')
    expect(tryLock(holder)).to.equal(true)
    expect(await made(new IntentRecovery(parts()))).to.equal(0)
    closeSync(holder)
    expect(await made(new IntentRecovery(parts()))).to.equal(1)
  })

  it('ignores a batch that was only partly written, wherever its process died', async () => {
    const whole = envelope()
    const journal = new IntentJournal(dir.path, nodeFileSystem, log)
    await journal.begin(whole)
    const path = only()
    const acknowledged = readFileSync(path).length
    await journal.begin(envelope())
    await journal.close()
    const content = readFileSync(path)
    for (let size = 0; size < content.length; size += size < acknowledged ? 97 : 13) {
      writeFileSync(path, content.subarray(0, size))
      const before = spansOf(dir.path)
      expect(await made(new IntentRecovery(parts()))).to.be.at.most(1)
      expect(spansOf(dir.path).length).to.be.at.least(before.length)
      expect(journals()).to.deep.equal([])
    }
    expect(spansOf(dir.path)).to.deep.equal([whole.span_id])
  })

  it('does nothing without a folder of intents', async () => {
    mkdirSync(join(dir.path, 'empty'))
    expect(await made(new IntentRecovery({ ...parts(), dir: join(dir.path, 'empty') }))).to.equal(0)
  })

  it('writes one record however many processes compete', async () => {
    const racers = 4
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 20 }), async (calls) => {
        const before = spansOf(dir.path).length
        await left(...Array.from({ length: calls }, () => envelope()))
        const each = await Promise.all(
          Array.from({ length: racers }, () => made(new IntentRecovery(parts()))),
        )
        expect(each.reduce((sum, one) => sum + one)).to.equal(calls)
        expect(spansOf(dir.path)).to.have.length(before + calls)
      }),
      { numRuns: 10 },
    )
  })

  it('finds the record of a call that began in a long log', async () => {
    const path = join(dir.path, `audit-${DAY}.ndjson`)
    await appender.append(envelope())
    const line = readFileSync(path)
    appendFileSync(
      path,
      Buffer.concat(Array.from({ length: Math.ceil(18_000_000 / line.length) }, () => line)),
    )
    const [recorded, lost] = [envelope(), envelope()]
    await left(recorded, lost)
    const { from } = JSON.parse(readFileSync(only(), 'utf8').split('\n')[2] ?? '') as { from: number }
    expect(from).to.be.greaterThan(0)
    await appender.append(recorded)
    expect(await made(new IntentRecovery(parts()))).to.equal(1)
  })

  it('writes the records of its own calls that failed, when the log works again', async () => {
    const intents = new IntentTracker(parts())
    const lost = envelope()
    intents.abandon(await intents.begin(lost))
    await intents.start()
    expect(spansOf(dir.path)).to.deep.equal([lost.span_id])
    await intents.close()
    expect(journals()).to.deep.equal([])
  })
})
