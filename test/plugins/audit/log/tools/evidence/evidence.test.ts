import { join } from 'node:path'
import { COSIGNATURE_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { cosign, formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { estimateEvidence, evidenceOf } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { signerOf } from '../../../../../support/audit-log.js'
import { Chance } from '../../../../../support/chance.js'
import { propertyRuns } from '../../../../../support/property-runs.js'
import { codeOf } from '../../writer/records.js'
import {
  DAY,
  type EvidenceJob,
  type EvidenceRig,
  evidenceRig,
  findEverywhere,
  keyLine,
} from './evidence-rig.js'
import { forgeries } from './forgeries.js'

const START = '<script type="application/json" id="evidence">'
const witnessName = 'witness.example/1'
const witnessKey = formatVkey(witnessName, COSIGNATURE_TYPE, signerOf(5).publicKey)
const HOUR_MS = 3_600_000

interface Attack {
  readonly title: string
  /** Changes the page. */
  page(page: string, rig: EvidenceRig): string
  readonly keys?: string
  readonly witnesses?: string
  /** What is found: `list number`, or `page` if the file is refused as a whole. Absent: nothing. */
  readonly found?: readonly string[]
}

interface Data {
  records: string[]
  definitions: string[]
  filter: Record<string, unknown>
  [member: string]: unknown
}

/** Changes the data, and writes it as the page has it. */
function data(change: (data: Data, rig: EvidenceRig) => void) {
  return (page: string, rig: EvidenceRig) => {
    const value = JSON.parse(dataOf(page)) as Data
    change(value, rig)
    return page.replace(dataOf(page), () => escaped(JSON.stringify(sorted(value))))
  }
}

/** The page with a cosignature of the witness, by its clock. */
function cosigned(aheadHours: number) {
  const withIt = (proof: string) => {
    const text = proof.slice(proof.indexOf('\n\n') + 2).split('\n\n')[0]
    return proof + cosign(`${text}\n`, witnessName, signerOf(5), Date.now() + aheadHours * HOUR_MS)
  }
  return data((of) => {
    of.records = of.records.map(withIt)
    of.definitions = of.definitions.map(withIt)
  })
}

const escaped = (text: string) =>
  text.replace(/[<>&\u2028\u2029]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
const sorted = (value: object) =>
  Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
const dataOf = (page: string) => page.slice(page.indexOf(START) + START.length, page.indexOf('</script>'))
const lineOf = (proof: string) => /^extra .*$/m.exec(proof)?.[0] ?? ''
const recordOf = (proof: string) => Buffer.from(lineOf(proof).slice(6), 'base64').toString()
const withRecord = (proof: string, record: string) =>
  proof.replace(lineOf(proof), `extra ${Buffer.from(record).toString('base64')}`)
const withNote = (proof: string, note: string) => proof.slice(0, proof.indexOf('\n\n') + 2) + note

const whole = ['page']
const everyRecord = Array.from({ length: 10 }, (_, i) => `records ${i + 1}`)
const everything = ['definitions 1', ...everyRecord]
const attacks: readonly Attack[] = [
  { title: 'nothing', page: (page) => page },
  {
    title: 'who made it and when, which nothing proves',
    page: data((of) => (of['made_by'] = 'somebody else')),
  },
  {
    title: 'the shown verdict',
    page: (page) => page.replace('Not checked. Enter the public key of the log.', 'All records are proven.'),
    found: whole,
  },
  {
    title: 'the class of the shown verdict',
    page: (page) => page.replace('id="verdict" class="unchecked"', 'id="verdict" class="ok"'),
    found: whole,
  },
  {
    title: 'the script, so that failures are green',
    page: (page) => page.replace("if (count('failed') > 0)", 'if (false)'),
    found: whole,
  },
  {
    title: 'one byte of the script',
    page: (page) => page.replace('const ROWS = 100', 'const ROWS = 101'),
    found: whole,
  },
  { title: 'a style', page: (page) => page.replace('--bad: #b3131b', '--bad: #116329'), found: whole },
  {
    title: 'the rule against other scripts',
    page: (page) => page.replace(/<meta http-equiv.*>\n/, ''),
    found: whole,
  },
  {
    title: 'a script more',
    page: (page) => page.replace('</body>', '<script>1</script></body>'),
    found: whole,
  },
  {
    title: 'a second block after the first',
    page: (page) => page.replace('</script>', `</script>${START}{}</script>`),
    found: whole,
  },
  {
    title: 'a second block before the first',
    page: (page) => page.replace(START, `${START}{}</script>${START}`),
    found: whole,
  },
  {
    title: 'the true block in a comment, and another one',
    page: (page, { forged }) =>
      page.replace(START + dataOf(page), `<!--${START}${dataOf(page)}</script>-->${START}${dataOf(forged)}`),
    found: whole,
  },
  { title: 'a block after the end', page: (page) => `${page}${START}${dataOf(page)}</script>`, found: whole },
  { title: 'a byte after the end', page: (page) => `${page}\n`, found: whole },
  { title: 'a byte order mark', page: (page) => `\ufeff${page}`, found: whole },
  { title: 'line ends', page: (page) => page.replaceAll('\n', '\r\n'), found: whole },
  { title: 'markup in the data', page: (page) => page.replace(START, `${START}<!-- -->`), found: whole },
  { title: 'white space in the data', page: (page) => page.replace(START, `${START} `), found: whole },
  {
    title: 'an escape in the data',
    page: (page) => page.replace('"made_by":"a', '"made_by":"\\u0061'),
    found: whole,
  },
  {
    title: 'a member twice',
    page: (page) => page.replace(START, `${START}{"records":[],`).replace(',{"def', ',"def'),
    found: whole,
  },
  { title: 'a member more', page: data((of) => (of['verdict'] = 'proven')), found: whole },
  { title: 'a member less', page: data((of) => delete of['more']), found: whole },
  { title: 'a count that is not one', page: data((of) => (of['more'] = 0.5)), found: whole },
  { title: 'the version of the format', page: data((of) => (of['evidence'] = 2)), found: whole },
  { title: 'true in the place of 1', page: data((of) => (of['evidence'] = true)), found: whole },
  { title: 'a record that is not a text', page: data((of) => of.records.push(1 as never)), found: whole },
  { title: 'no record', page: data((of) => (of.records = [])), found: whole },
  {
    title: 'the data of a log of another key',
    page: (page, { forged }) => page.replace(dataOf(page), () => dataOf(forged)),
    found: everything,
  },
  {
    title: 'one record by that of another key',
    page: data((of, { forged }) => (of.records[2] = JSON.parse(dataOf(forged)).records[2])),
    found: ['records 3'],
  },
  {
    title: 'a value of a record',
    page: data(
      (of) => (of.records[1] = withRecord(of.records[1]!, recordOf(of.records[1]!).replace('"ok"', '"no"'))),
    ),
    found: ['records 2'],
  },
  {
    title: 'the records of two proofs',
    page: data(({ records }) => {
      const [one, two] = [records[1]!, records[2]!]
      records[1] = withRecord(one, recordOf(two))
      records[2] = withRecord(two, recordOf(one))
    }),
    found: ['records 2', 'records 3'],
  },
  { title: 'the order of two records, which says nothing', page: data(({ records }) => records.reverse()) },
  {
    title: 'the place of a record',
    page: data(
      (of) => (of.records[1] = of.records[1]!.replace(/^index (\d+)$/m, (_, n) => `index ${Number(n) + 1}`)),
    ),
    found: ['records 2'],
  },
  {
    title: 'a leading zero in the place',
    page: data((of) => (of.records[1] = of.records[1]!.replace(/^index /m, 'index 0'))),
    found: ['records 2'],
  },
  {
    title: 'the checkpoint by an older one',
    page: data((of, { heads }) => (of.records[1] = withNote(of.records[1]!, heads[0]))),
    found: ['records 2'],
  },
  {
    title: 'the name of the log',
    page: data((of) => (of.records[1] = of.records[1]!.replaceAll('svc-audit.invalid', 'svc-audit.other'))),
    found: ['records 2'],
  },
  { title: 'two proofs in one', page: data((of) => (of.records[1] += of.records[2]!)), found: ['records 2'] },
  {
    title: 'a record by a line of the journal',
    page: data((of, { journalLine }) => (of.records[0] = withRecord(of.records[0]!, journalLine))),
    found: ['records 1'],
  },
  { title: 'a record twice', page: data((of) => of.records.push(of.records[3]!)), found: ['records 11'] },
  { title: 'a proof by nothing', page: data((of) => (of.records[0] = '')), found: ['records 1'] },
  {
    title: 'the selection by another tenant',
    page: data((of) => (of.filter = { tenant: 'beta' })),
    found: everyRecord,
  },
  {
    title: 'the selection by a later time',
    page: data((of) => (of.filter = { since: `${DAY}T13:30:00Z`, tenant: 'acme' })),
    found: [1, 2, 3, 5, 6, 7, 8, 9, 10].map((i) => `records ${i}`),
  },
  {
    title: 'the selection by none at all',
    page: data((of) => (of.filter = { since: 'yesterday' })),
    found: everyRecord,
  },
  {
    title: 'the selection by an unknown one',
    page: data((of) => (of.filter = { everything: 'yes' })),
    found: whole,
  },
  {
    title: 'the definition by a record that has none',
    page: data((of) => (of.definitions = [of.records[4]!])),
    found: ['definitions 1'],
  },
  {
    title: 'a definition that no record names',
    page: data((of) => (of.records = of.records.slice(4))),
    found: ['definitions 1'],
  },
  {
    title: 'nothing, and the key ended before',
    page: (page) => page,
    keys: `${keyLine} 0 5`,
    found: everything,
  },
  {
    title: 'nothing, and a witness is required',
    page: (page) => page,
    witnesses: witnessKey,
    found: everything,
  },
  { title: 'a cosignature of the witness', page: cosigned(0), witnesses: witnessKey },
  { title: 'a cosignature of a later hour', page: cosigned(2), witnesses: witnessKey, found: everything },
  { title: 'a cosignature of a year', page: cosigned(-9000), witnesses: witnessKey },
  {
    title: 'a cosignature by one of an unknown witness',
    page: data(
      (of) => (of.records[0] += `\u2014 witness.example/1 ${Buffer.alloc(76, 1).toString('base64')}\n`),
    ),
    witnesses: witnessKey,
    found: everything,
  },
]

describe('an evidence file', function () {
  this.timeout(120_000)
  let rig: EvidenceRig

  before(async () => {
    rig = await evidenceRig()
  })

  after(() => rig.remove())

  const judge = (jobs: readonly EvidenceJob[]) => findEverywhere(rig.root, jobs)

  it('is judged alike by all verifiers, and an edited one is found, whatever was edited', async () => {
    const jobs = attacks.map(({ title, page, keys, witnesses }, at) => {
      const changed = page(rig.page, rig)
      if (at > 0 && !title.startsWith('nothing')) expect(changed, title).to.not.equal(rig.page)
      return { title, page: changed, ...(keys === undefined ? {} : { keys }), witnesses }
    })
    const found = await judge(jobs)
    for (const [at, { title, found: expected = [] }] of attacks.entries()) {
      expect(found[at], title).to.deep.equal([...expected].sort())
    }
  })

  it('is judged alike by all verifiers, whatever the holder of the key has signed', async () => {
    const all = [...forgeries()]
    const found = await judge(all)
    for (const [at, { title, found: expected }] of all.entries())
      expect(found[at], title).to.deep.equal([...expected])
  })

  it('does not pass with any byte changed, save in the statements of its maker', async () => {
    const seed = Number(process.env['SVC_SEED'] ?? 5)
    const random = new Chance(seed)
    const bytes = Buffer.from(rig.page)
    const flips = Array.from({ length: propertyRuns(120) }, () => {
      const page = Buffer.from(bytes)
      // Half of them in the data.
      const inData = random.int(0, 1) === 0
      const first = inData ? bytes.indexOf(START) : 0
      const at = random.int(first, inData ? bytes.indexOf('</script>') : bytes.length - 1)
      page[at] = page[at]! ^ random.int(1, 255)
      return { page, at }
    })
    const found = await judge(flips)
    const from = bytes.indexOf('"filter"')
    const to = bytes.indexOf('"records"')
    for (const [i, { at }] of flips.entries()) {
      if (at > from && at < to) continue
      expect(found[i], `byte ${at}, seed ${seed}`).to.not.deep.equal([])
    }
  })

  it('has the records that match, and says how many it has not', async () => {
    const page = await rig.pageOf({ tenant: 'acme', limit: 4 })
    expect(JSON.parse(dataOf(page))).to.include({ more: 6, not_sealed: 0 })
    expect((await judge([{ page }]))[0]).to.deep.equal([])
    const records = JSON.parse(dataOf(page)).records as string[]
    expect(records.map((proof) => JSON.parse(recordOf(proof)).tenant)).to.deep.equal(Array(4).fill('acme'))
  })

  it('is estimated before it is made, and is refused over its limit with what helps', async () => {
    const dirs = [join(rig.root, 'log')]
    const estimate = await estimateEvidence(dirs, { tenant: 'acme' })
    expect(estimate).to.include({ records: 10, notSealed: 0, more: 0 })
    expect(estimate.bytes).to.be.within(rig.page.length * 0.9, rig.page.length * 1.1)
    const made = (maxBytes: number) => evidenceOf(dirs, { tenant: 'acme' }, { madeBy: 'a test', maxBytes })
    for (const maxBytes of [1000, estimate.bytes * 0.9]) {
      const error = await made(maxBytes).then(null, (reason) => reason)
      expect(error).to.include({ code: 'over_limit' })
      expect(error.message).to.match(/select fewer records \(--since/)
    }
    expect(await codeOf(evidenceOf(dirs, { tenant: 'nobody' }, { madeBy: 'a test' }))).to.equal('not_found')
  })
})
