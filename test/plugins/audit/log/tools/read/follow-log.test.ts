import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { followLog, type LogFilter, type MissingRecords } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder, signerOf } from '../../../../../support/audit-log.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { DAY } from '../../writer/records.js'

const NEXT = '2026-11-22'

interface Followed {
  /** `<leaf> <tool>`, with the failure if there is one. */
  readonly records: string[]
  readonly missing: MissingRecords[]
  readonly badJournal: number[]
}

describe('followLog', () => {
  const dir = temporaryDir()
  const file = (day = DAY): string => join(dir.path, `audit-${day}.ndjson`)

  /** Reads to the end, doing one of `steps` each time it has read all there is. */
  async function follow(
    steps: readonly (() => void)[] = [],
    filter: LogFilter = {},
    from?: number,
  ): Promise<Followed> {
    const seen: Followed = { records: [], missing: [], badJournal: [] }
    const left = [...steps]
    const options = {
      from,
      more: async () => {
        const step = left.shift()
        step?.()
        return step !== undefined
      },
      onMissing: (missing: MissingRecords) => void seen.missing.push(missing),
      onBadJournal: (end: number) => void seen.badJournal.push(end),
    }
    for await (const { leaf, record, failure } of followLog(dir.path, filter, options))
      seen.records.push([leaf, record?.tool ?? '?', ...(failure === undefined ? [] : [failure])].join(' '))
    return seen
  }

  /** Three records in two seals: the leaves 1, 2 and 4. */
  function threeRecords(): LogBuilder {
    const log = new LogBuilder(dir.path)
    for (const tool of ['a@1', 'b@1']) log.record(DAY, { tool })
    log.seal()
    log.record(DAY, { tool: 'c@1' })
    log.seal()
    return log
  }

  it('yields existing records and those that are sealed later, once each, over the days', async () => {
    const log = threeRecords()
    const later = (day: string, tool: string) => () => {
      log.record(day, { tool })
      log.seal()
    }
    const { records } = await follow([later(DAY, 'd@1'), () => undefined, later(NEXT, 'e@1')])
    expect(records).to.deep.equal(['1 a@1', '2 b@1', '4 c@1', '6 d@1', '8 e@1'])
  })

  it('resumes at a leaf, within a seal too', async () => {
    threeRecords()
    expect((await follow([], {}, 2)).records).to.deep.equal(['2 b@1', '4 c@1'])
    expect((await follow([], {}, 5)).records).to.deep.equal([])
  })

  it('yields no record before its seal', async () => {
    const log = threeRecords()
    log.record(DAY, { tool: 'late@1' })
    expect((await follow()).records).to.deep.equal(['1 a@1', '2 b@1', '4 c@1'])
    expect((await follow([() => log.seal()])).records.at(-1)).to.equal('6 late@1')
  })

  it('leaves out what the filter excludes, but no line that is not a record', async () => {
    threeRecords()
    const text = readFileSync(file(), 'utf8')
    const [, second = ''] = text.split('\n')
    writeFileSync(file(), text.replace(second, 'x'.repeat(second.length)))
    expect((await follow([], { tool: 'c@1' })).records).to.deep.equal(['2 ? not_json', '4 c@1'])
  })

  it('marks a record that was changed, and one that an unknown key has signed', async () => {
    const log = threeRecords()
    log.record(DAY, { tool: 'strange@1' }, signerOf(9))
    log.seal()
    writeFileSync(file(), readFileSync(file(), 'utf8').replace('a@1', 'x@1'))
    const { records } = await follow()
    expect(records).to.deep.equal(['1 x@1 bad_signature', '2 b@1', '4 c@1', '6 strange@1 unknown_key'])
  })

  it('trusts a key from the line of the journal on that introduces it, while it follows', async () => {
    const log = threeRecords()
    const next = signerOf(8)
    const rotate = () => {
      log.journal({ kind: 'key', key: publicKeyLine(next.publicKey) })
      log.record(DAY, { tool: 'd@1' }, next)
      log.seal({ signer: next })
    }
    expect((await follow([rotate], {}, 4)).records).to.deep.equal(['4 c@1', '7 d@1'])
  })

  it('trusts a key for no leaf from which on it was revoked', async () => {
    const log = threeRecords()
    const next = signerOf(8)
    log.journal({ kind: 'key', key: publicKeyLine(next.publicKey) })
    log.record(DAY, { tool: 'd@1' }, next)
    log.seal()
    log.journal({ kind: 'revoke', revoked: next.keyId, until: 8 })
    log.record(DAY, { tool: 'e@1' }, next)
    log.seal()
    expect((await follow([], {}, 5)).records).to.deep.equal(['7 d@1', '10 e@1 revoked_key'])
  })

  it('marks the records of a seal that no key of the log has signed', async () => {
    const log = threeRecords()
    log.record(DAY, { tool: 'd@1' })
    log.seal({ signer: signerOf(9) })
    expect((await follow([], {}, 4)).records).to.deep.equal(['4 c@1', '6 d@1 bad_journal'])
  })

  it('reports a line of the journal that is not one', async () => {
    threeRecords()
    const journal = join(dir.path, 'audit.journal')
    const text = readFileSync(journal, 'utf8')
    writeFileSync(journal, `${text}{}\n`)
    expect((await follow()).badJournal).to.deep.equal([text.length + 3])
  })

  it('tells a day that retention removed from records that are missing', async () => {
    const log = threeRecords()
    log.record(NEXT, { tool: 'd@1' })
    log.record(NEXT, { tool: 'e@1' })
    log.seal()
    log.remove(DAY)
    const lines = readFileSync(file(NEXT), 'utf8').split('\n')
    writeFileSync(file(NEXT), `${lines[0]}\n`)
    const { records, missing } = await follow()
    expect(records).to.deep.equal(['6 d@1'])
    expect(missing).to.deep.equal([
      { day: DAY, leaf: 1, isRemoved: true },
      { day: NEXT, leaf: 7, isRemoved: false },
    ])
    rmSync(file(NEXT))
    expect((await follow([], {}, 6)).missing).to.deep.equal([{ day: NEXT, leaf: 6, isRemoved: false }])
  })

  it('waits for a directory that has no log yet', async () => {
    const { records } = await follow([() => undefined, () => void threeRecords()])
    expect(records).to.deep.equal(['1 a@1', '2 b@1', '4 c@1'])
  })

  it('refuses a log whose records are never sealed, and another log in the place of the first', async () => {
    threeRecords()
    const replace = () => {
      renameSync(join(dir.path, 'audit.journal'), join(dir.path, 'old.journal'))
      writeFileSync(join(dir.path, 'audit.journal'), readFileSync(join(dir.path, 'old.journal')))
    }
    const codeOf = (steps?: (() => void)[]) =>
      follow(steps).then(
        () => expect.fail('it follows'),
        (error: { code?: string }) => error.code,
      )
    expect(await codeOf([replace])).to.equal('log_changed')
    rmSync(join(dir.path, 'audit.journal'))
    expect(await codeOf()).to.equal('not_sealed')
  })
})
