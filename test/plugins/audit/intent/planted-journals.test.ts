import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { BatchChain, ProcessKey } from '@svc/plugin-audit/internal/intent/batch-chain'
import { intentLine, OUTCOME_UNKNOWN, outcomeLine } from '@svc/plugin-audit/internal/intent/entry'
import { IntentJournal } from '@svc/plugin-audit/internal/intent/journal'
import { IntentTracker } from '@svc/plugin-audit/internal/intent/tracker'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { type AuditEnvelope, rotateKey, type SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { signerOf } from '../../../support/audit-log.js'
import { propertyRuns } from '../../../support/property-runs.js'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { appenderIn, envelope, fixedClock, memoryLogger, recordsOf, signer } from '../log/writer/records.js'

const MINUTE = 60_000

describe('planted journals of intents', () => {
  const dir = temporaryDir()
  const folder = () => join(dir.path, 'intents')
  const path = (name: string) => join(folder(), name)
  const former = signerOf(8)
  let appender: SvcAppender
  let clock: ReturnType<typeof fixedClock>
  let logger: ReturnType<typeof memoryLogger>
  let trackers: IntentTracker[]

  beforeEach(async () => {
    // A log whose former key is retired.
    const begun = appenderIn(dir.path, { signer: former })
    await begun.ready()
    await begun.close()
    await rotateKey(dir.path, { from: former, to: signer, retire: true })
    appender = appenderIn(dir.path)
    await appender.ready()
    clock = fixedClock()
    logger = memoryLogger()
    trackers = []
  })

  afterEach(async () => {
    for (const tracker of trackers) await tracker.close()
    await appender.close()
  })

  const logOf = (by = signer, logId = appender.logId ?? null) => ({ signer: by, logId: () => logId })

  function tracker(): IntentTracker {
    const made = new IntentTracker({
      dir: dir.path,
      port: nodeFileSystem,
      logger,
      clock,
      log: { ...logOf(), trustedKeys: () => appender.trustedKeys() },
      keyId: signer.keyId,
      append: (record) => appender.append(record),
      refusedRecord: (count, detail) =>
        envelope({ tool: 'intents/refused@1', event: { files: count }, error: detail }),
    })
    trackers.push(made)
    return made
  }

  /** The journal of a process that died with these calls open; each one in a batch of its own. */
  async function died(records: readonly AuditEnvelope[], log = logOf()): Promise<string> {
    const before = new Set(existsSync(folder()) ? readdirSync(folder()) : [])
    const journal = new IntentJournal(dir.path, nodeFileSystem, log)
    for (const record of records) await journal.begin(record)
    await journal.close()
    const [name = ''] = readdirSync(folder()).filter((one) => one.endsWith('.journal') && !before.has(one))
    return name
  }

  const unknown = (record: AuditEnvelope) => ({
    ...record,
    status: 'error',
    error: OUTCOME_UNKNOWN,
    sent: 'unknown',
    output_sha256: null,
    key_id: signer.keyId,
  })
  const isRefusal = ({ tool }: AuditEnvelope) => tool === 'intents/refused@1'
  const calls = () => recordsOf(dir.path).filter((record) => !isRefusal(record))
  const refusals = () => recordsOf(dir.path).filter(isRefusal)
  const refused = () => (existsSync(path('refused')) ? readdirSync(path('refused')) : [])
  const left = () => readdirSync(folder()).filter((name) => name.endsWith('.journal'))

  const decision = () =>
    envelope({ server: 'edge@1.0.0', gateway: 'edge@1.0.0', tool: 'escalations/decide@1' })

  /** A journal with one intent, as who has the keys of `log` can write it. */
  async function forged(name: string, record: AuditEnvelope, log = logOf()): Promise<void> {
    const key = new ProcessKey()
    const first = await key.firstLine(name, log)
    const lines = Buffer.from(intentLine({ serial: 1, from: 0, record }))
    mkdirSync(folder(), { recursive: true })
    writeFileSync(path(name), Buffer.concat([Buffer.from(first), new BatchChain(first).signed(lines, key)]))
  }

  /** What each party can put in the place of a journal; `victim` is one of a dead process of this log. */
  const plants: readonly [title: string, plant: (name: string, victim: string) => Promise<void> | void][] = [
    [
      'unsigned lines of a decision',
      (name) =>
        writeFileSync(path(name), `{"journal":1}\n${intentLine({ serial: 1, from: 0, record: decision() })}`),
    ],
    ['a decision under a made-up key', (name) => forged(name, decision(), logOf(signerOf(66)))],
    ['a call under a made-up key', (name) => forged(name, envelope(), logOf(signerOf(66)))],
    [
      'a call under a made-up key with the id of the real one',
      (name) => {
        const { sign, verify, publicKey } = signerOf(66)
        const by = signerOf(66)
        const posing = { keyId: signer.keyId, publicKey, sign: sign.bind(by), verify: verify.bind(by) }
        return forged(name, envelope(), { signer: posing as never, logId: logOf().logId })
      },
    ],
    ['a call under the retired key', (name) => forged(name, envelope(), logOf(former))],
    ['a decision by who has the key of the log', (name) => forged(name, decision())],
    [
      'a call of another log of the same key',
      (name) => forged(name, envelope(), logOf(signer, 'ab'.repeat(8))),
    ],
    ['a call of a log without an id', (name) => forged(name, envelope(), { signer, logId: () => null })],
    ['a record that the log refuses', (name) => forged(name, envelope({ tenant: '' }))],
    ['a copy of a journal', (name, victim) => writeFileSync(path(name), readFileSync(path(victim)))],
    [
      'the first line of a journal before own batches',
      (name, victim) => {
        const [first = ''] = readFileSync(path(victim), 'utf8').split(/(?<=\n)/)
        const lines = Buffer.from(intentLine({ serial: 1, from: 0, record: envelope() }))
        const signed = new BatchChain(first).signed(lines, new ProcessKey())
        writeFileSync(path(name), Buffer.concat([Buffer.from(first), signed]))
      },
    ],
    ['a record of the log', (name) => writeFileSync(path(name), `${canonicalize(envelope())}\n`)],
    ['a long line', (name) => writeFileSync(path(name), 'x'.repeat(2_000_000))],
    ['bytes', (name) => writeFileSync(path(name), Buffer.from('\0\xff\n\0\n'.repeat(9), 'latin1'))],
    ['a directory', (name) => void mkdirSync(path(name))],
    ['a link to a file of the log', (name) => symlinkSync('../audit.journal', path(name))],
    ['a link to itself', (name) => symlinkSync(name, path(name))],
  ]

  for (const [title, plant] of plants)
    it(`are moved aside and recorded, and block nobody: ${title}`, async () => {
      const [victim, other] = [envelope(), envelope()]
      const name = await died([victim])
      await plant('0-planted.journal', name)
      await died([other])
      await tracker().start()
      expect(calls()).to.have.deep.members([unknown(victim), unknown(other)])
      expect(left()).to.deep.equal([])
      expect(refused().map((one) => one.replace(/-[0-9a-f]{12}$/, ''))).to.deep.equal(['0-planted.journal'])
      expect(refusals().map(({ event }) => event)).to.deep.equal([{ files: 1 }])
      expect(refusals()[0]?.error).to.match(/^0-planted\.journal: /)
      const [entry] = logger.entries.filter(({ level }) => level === 'error')
      expect(entry?.fields).to.include({ files: 1 })
    })

  it('have no effect that is not in the journal, however a journal of a dead process is changed', async function () {
    this.timeout(600_000)
    const kind = fc.constantFrom('flip', 'cut', 'remove', 'insert', 'swap', 'repeat', 'append', 'end')
    const change = fc.record({ kind, at: fc.nat(10_000), to: fc.nat(10_000) })
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
        const [begun, honest] = [[envelope(), envelope(), envelope()], envelope()]
        const name = await died(begun)
        await died([honest])
        const donor = await died([envelope({ tool: 'delete@1' })], logOf(signerOf(66)))
        const foreign = readFileSync(path(donor), 'utf8')
        rmSync(path(donor))
        const original = readFileSync(path(name), 'latin1')
        const changed = changes.reduce((text, one) => changedBy(text, one, foreign), original)
        writeFileSync(path(name), changed, 'latin1')
        const before = calls().length
        // Closed, because its next sweep would be in the way of the next one's.
        const own = tracker()
        await own.start()
        await own.close()
        const made = calls().slice(before)
        const context = `${JSON.stringify(changes)} of ${sha256Hex(original)}`
        expect(made, context).to.deep.include(unknown(honest))
        const allowed = [...begun, honest].map(unknown)
        for (const record of made) expect(allowed, context).to.deep.include(record)
        // A prefix: what follows a change is not believed.
        const spans = made.map(({ span_id }) => span_id).filter((span) => span !== honest.span_id)
        expect(begun.map(({ span_id }) => span_id).slice(0, spans.length)).to.have.members(spans)
        expect(left(), context).to.deep.equal([])
      }),
      { numRuns: propertyRuns(30) },
    )
  })

  it('that a process with the key of the log cannot record are no calls, whatever their members say', async () => {
    const record = envelope({ sent: 'yes', status: 'ok', output_sha256: 'a'.repeat(64), error: 'x' })
    await forged('1-own.journal', record)
    await tracker().start()
    expect(calls()).to.deep.equal([unknown(record)])
  })

  it('are recovered after a rotation, as long as the log trusts the key of the dead process', async () => {
    const next = signerOf(9)
    const lost = envelope()
    await died([lost])
    await appender.close()
    await rotateKey(dir.path, { from: signer, to: next })
    appender = appenderIn(dir.path, { signer: next })
    await appender.ready()
    await tracker().start()
    expect(refused()).to.deep.equal([])
    await appender.flush()
    const log = readFileSync(join(dir.path, 'audit-2026-11-21.ndjson'), 'utf8')
    expect(log.match(/"span_id":"\w+"/g)).to.deep.equal([`"span_id":"${lost.span_id}"`])
  })

  it('have one record a minute, whatever their number, and one more at the end', async () => {
    const own = tracker()
    const plant = (from: number, count: number) => {
      for (let i = from; i < from + count; i++) writeFileSync(path(`${i}-x.journal`), 'planted\n')
    }
    mkdirSync(folder(), { recursive: true })
    await died([envelope()])
    plant(0, 30)
    await own.start()
    plant(30, 5)
    await own.sweep()
    clock.ms += MINUTE - 1
    plant(40, 5)
    await own.sweep()
    expect(refusals().map(({ event }) => event)).to.deep.equal([{ files: 30 }])
    clock.ms += 1
    await own.sweep()
    plant(50, 2)
    await own.sweep()
    await own.close()
    expect(refusals().map(({ event }) => event)).to.deep.equal([{ files: 30 }, { files: 10 }, { files: 2 }])
    expect(refusals()[0]?.error?.split('; ')).to.have.length(10)
  })

  it('that are not files do not keep a process waiting', async () => {
    mkdirSync(folder(), { recursive: true })
    const lost = envelope()
    await died([lost])
    execFileSync('mkfifo', [path('0-pipe.journal')])
    await tracker().start()
    expect(calls()).to.deep.equal([unknown(lost)])
    expect(left()).to.deep.equal([])
  })
})

interface Change {
  readonly kind: string
  readonly at: number
  readonly to: number
}

function changedBy(text: string, { kind, at: first, to: second }: Change, foreign: string): string {
  const [at, to] = [first % (text.length + 1), second % (text.length + 1)].toSorted((a, b) => a - b) as [
    number,
    number,
  ]
  const lines = text.split(/(?<=\n)/)
  const [i, j] = [first % lines.length, second % lines.length]
  const others = foreign.split(/(?<=\n)/)
  const byte = String.fromCharCode(((text.charCodeAt(at) || 0) + 1) % 256)
  switch (kind) {
    case 'flip':
      return text.slice(0, at) + byte + text.slice(at + 1)
    case 'cut':
      return text.slice(0, at)
    case 'remove':
      return text.slice(0, at) + text.slice(to)
    case 'insert':
      return lines.toSpliced(i, 0, others[second % others.length] ?? '').join('')
    case 'swap':
      return lines
        .with(i, lines[j] ?? '')
        .with(j, lines[i] ?? '')
        .join('')
    case 'repeat':
      return lines.toSpliced(j, 0, ...lines.slice(i, i + 2)).join('')
    case 'append':
      return text + others.slice(1).join('')
    default:
      return text + outcomeLine(second % 4)
  }
}
