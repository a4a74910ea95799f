// What the Verify panel shows while the log changes under it: the code of the page, over the log as the admin API reads it.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { COSIGNATURE_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { cosign, formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { browsedRecord } from '@svc/plugin-audit/internal/log/tools/browse/browse-records'
import { browseProof, consistencyPath, LogDays } from '@svc/plugin-audit/internal/log/tools/browse/log-days'
import { expect } from 'chai'
import { ApiError } from 'svc-sdk/internal/console/ui/kit/api'
import { verifyRecord } from 'svc-sdk/internal/console/ui/verify/verify-record'
import { LogBuilder, noteOf, signerOf } from '../../support/audit-log.js'
import { temporaryDir } from '../../support/temporary-dir.js'

const DAY = '2026-11-20'
const FILE = `audit-${DAY}.ndjson`

/** The admin API on a log, as `app/log/operations.ts` has it. */
function apiOf(dir: string) {
  const get = async (path: string): Promise<object> => {
    const [, leaf] = /^\/api\/records\/(\d+)\/proof$/.exec(path) ?? []
    if (leaf === undefined) {
      const [, older] = /older=(\d+)$/.exec(path) ?? []
      const summary = await new LogDays(dir).summary()
      if (older === undefined) return summary
      return { ...summary, consistency: consistencyPath(dir, Number(older), summary.head?.size ?? 0) }
    }
    if (browsedRecord(dir, Number(leaf)) === undefined)
      throw new ApiError({ status: 404, error: 'TARGET_NOT_FOUND', message: 'There is no record.' })
    const proof = await browseProof(dir, Number(leaf)).catch((error: { code?: string }) => {
      if (error.code !== 'not_sealed') throw error
    })
    return proof === undefined ? { leaf: Number(leaf), sealed: false } : { ...proof, sealed: true }
  }
  return { get: <T>(path: string) => get(path) as Promise<T> }
}

/** A log of six records, sealed in pairs; `grow` seals more of them, `others` says otherwise in each. */
function build(
  dir: string,
  origin: string,
  { pairs = 3, seed = 7, others = false, removes = false } = {},
): LogBuilder {
  mkdirSync(dir)
  const log = new LogBuilder(dir, { seed, at: `${DAY}T10:00:00.000Z`, origin })
  for (let pair = 0; pair < pairs; pair++) {
    for (const at of [0, 1]) log.record(DAY, { tenant: others ? 'beta' : 'acme', latency_ms: pair * 2 + at })
    log.seal()
  }
  log.at = '2027-01-20T10:00:00.000Z'
  if (removes) log.remove(DAY)
  return log.finish()
}

/** The second record. */
const LEAF = 2

type Tamper = (dir: string, origin: string) => void

const colours: Readonly<Record<string, string>> = {
  ok: 'green',
  failed: 'red',
  unchecked: 'grey',
  error: 'grey',
}
const files = (dir: string, name: RegExp) => readdirSync(dir).filter((one) => name.test(one))
const edit = (path: string, change: (text: string) => string) =>
  writeFileSync(path, change(readFileSync(path, 'utf8')))
const remove = (name: RegExp) => (dir: string) => {
  for (const file of files(dir, name)) rmSync(join(dir, file), { recursive: true })
}
const replace =
  ({ end = '', ...given }: Parameters<typeof build>[2] & { end?: string }): Tamper =>
  (dir, origin) => {
    rmSync(dir, { recursive: true })
    build(dir, origin + end, given)
  }
const notes = (change: (notes: string[]) => string[]) => (dir: string) =>
  edit(join(dir, `audit-${DAY}.checkpoint`), (text) => change(text.split(/(?<=\n)(?=svc-audit)/)).join(''))

const rows: readonly [title: string, tamper: Tamper, state: string, says: RegExp][] = [
  ['nothing changes', () => undefined, 'ok', /only appended to since leaf 9/],
  ['it grows', replace({ pairs: 5 }), 'ok', /only appended to since leaf/],
  [
    'the record is changed',
    (dir) => edit(join(dir, FILE), (text) => text.replace('"latency_ms":1', '"latency_ms":9')),
    'failed',
    /changed after it was sealed/,
  ],
  [
    'the file is cut before the record',
    (dir) => truncateSync(join(dir, FILE), 100),
    'failed',
    /has it no more/,
  ],
  ['the file is emptied', (dir) => truncateSync(join(dir, FILE), 0), 'failed', /has it no more/],
  [
    'the record is replaced by text',
    (dir) => edit(join(dir, FILE), (text) => text.replace(/\n.*\n/, '\nhello\n')),
    'failed',
    /has it no more/,
  ],
  ['the file is removed', remove(/^audit-2026.*ndjson$/), 'failed', /has it no more/],
  [
    'the journal is removed',
    remove(/^audit\.journal$/),
    'failed',
    /the log has no checkpoint, the kept head has 10 leaves/,
  ],
  ['the journal is cut', (dir) => truncateSync(join(dir, 'audit.journal'), 300), 'failed', /has it no more/],
  ['all files are removed', remove(/./), 'failed', /the log has no checkpoint/],
  ['the checkpoints are removed', remove(/checkpoint$/), 'failed', /no checkpoint covers it any more/],
  [
    'the newest checkpoints are removed',
    notes((all) => all.slice(0, 2)),
    'failed',
    /the log has 4 leaves, the kept head has 10/,
  ],
  [
    'the checkpoints are signed by another key',
    notes((all) => all.map((note) => forged(note))),
    'failed',
    /no checkpoint covers it any more/,
  ],
  [
    'a forged checkpoint follows',
    notes((all) => [...all, forged(all.at(-1) ?? '', 99)]),
    'ok',
    /only appended to/,
  ],
  [
    'the file of keys is swapped',
    (dir) => writeFileSync(join(dir, 'public-keys'), `${publicKeyLine(signerOf(9).publicKey)}\n`),
    'ok',
    /only appended to/,
  ],
  ['the tree is removed', remove(/^tree$/), 'error', /read_failed/],
  [
    'retention removes its day',
    replace({ removes: true }),
    'unchecked',
    /retention removed the records of 2026-11-20/,
  ],
  ['it is rolled back', replace({ pairs: 2 }), 'failed', /the log has 7 leaves, the kept head has 10/],
  [
    'it is rolled back to before the record',
    replace({ pairs: 0 }),
    'failed',
    /the log has 1 leaves, the kept head has 10/,
  ],
  [
    'it is forked',
    replace({ pairs: 4, others: true }),
    'failed',
    /no longer has the leaves of the kept head/,
  ],
  [
    'it is forked at the same length',
    replace({ others: true }),
    'failed',
    /the checkpoint does not continue|no longer has the leaves/,
  ],
  [
    'it is written again with another key',
    replace({ pairs: 4, seed: 9 }),
    'failed',
    /no longer has the leaves/,
  ],
  ['it is another log', replace({ end: '/other' }), 'failed', /another one than a moment ago/],
]

/** The same checkpoint, or one of more leaves, by a key that is not the log's. */
function forged(note: string, size?: number): string {
  const [origin = '', leaves] = note.split('\n')
  return noteOf({ origin, size: size ?? Number(leaves), root: 'x'.repeat(32) }, [signerOf(9)])
}

const WITNESS = 'witness.example/1'
const [formerWitness, witness] = [signerOf(4), signerOf(5)]
const [formerKey, witnessKey] = [formerWitness, witness].map((one) =>
  formatVkey(WITNESS, COSIGNATURE_TYPE, one.publicKey),
) as [string, string]

/** The line of the witness on the newest checkpoint of a file; `of` makes another text of the signed one. */
const cosigned =
  (of: (text: string) => string = (text) => text) =>
  (file: string) => {
    const [note = ''] = file.split(/(?<=\n)(?=svc-audit)/).slice(-1)
    const text = note.slice(0, note.indexOf('\n\n') + 1)
    return cosign(of(text), WITNESS, witness, Date.now())
  }

const witnessed: readonly {
  readonly title: string
  readonly signature: (file: string) => string
  /** Those that the reader has. */
  readonly keys: readonly string[]
  /** Those that the gateway states among the log's. */
  readonly stated?: readonly string[]
  readonly row: string
  readonly state: string
}[] = [
  { title: 'whose key is kept', signature: cosigned(), keys: [witnessKey], row: 'ok', state: 'ok' },
  {
    title: 'whose former key is kept too',
    signature: cosigned(),
    keys: [formerKey, witnessKey],
    row: 'ok',
    state: 'ok',
  },
  {
    title: 'whose cosignature is of another checkpoint',
    signature: cosigned((text) => text.replace('\n', '/other\n')),
    keys: [witnessKey],
    row: 'failed',
    state: 'failed',
  },
  {
    title: 'that has not cosigned',
    signature: () => '',
    keys: [witnessKey],
    row: 'unchecked',
    state: 'ok',
  },
  { title: 'whose key is not kept', signature: cosigned(), keys: [], row: 'unchecked', state: 'ok' },
  {
    title: 'whose key the gateway states',
    signature: cosigned(),
    keys: [],
    stated: [witnessKey],
    row: 'unchecked',
    state: 'ok',
  },
]

describe('the Verify panel, while somebody looks at a record', () => {
  const home = temporaryDir()
  const storage = Object.create({
    getItem: (name: string) => Reflect.get(storage, name) ?? null,
    setItem: (name: string, value: string) => Reflect.set(storage, name, value),
  })
  const before = Object.getOwnPropertyDescriptor(globalThis, 'localStorage')

  beforeEach(() => Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true }))

  afterEach(() => {
    for (const name of Object.keys(storage)) Reflect.deleteProperty(storage, name)
    if (before === undefined) Reflect.deleteProperty(globalThis, 'localStorage')
    else Object.defineProperty(globalThis, 'localStorage', before)
  })

  /** A page for each row: its memory is not that of another. */
  const verify = async (dir: string, origin?: string) => {
    const shown = { day: DAY, origin, trusts: () => false, witnessKeys: '' }
    return verifyRecord(apiOf(dir), LEAF, shown)
  }

  for (const [at, { title, signature, keys, stated = [], row, state }] of witnessed.entries()) {
    it(`has a ${colours[row]} row of a witness ${title}, and is ${colours[state]}`, async () => {
      const dir = join(home.path, 'cosigned')
      build(dir, `svc-audit.invalid/cosigned-${at}`)
      edit(join(dir, `audit-${DAY}.checkpoint`), (text) => text + signature(text))
      const { get } = apiOf(dir)
      const lying = {
        get: async <T extends object>(path: string): Promise<T> => {
          const given: T & { keys?: string[] } = await get(path)
          return { ...given, ...(given.keys && { keys: [...given.keys, ...stated] }) }
        },
      }
      const shown = { day: DAY, origin: undefined, trusts: () => false, witnessKeys: keys.join('\n') }
      const found = await verifyRecord(lying as ReturnType<typeof apiOf>, LEAF, shown)
      expect(found?.rows.filter(({ name }) => name.startsWith('Witness'))).to.deep.equal([
        { name: `Witness ${WITNESS}`, result: found?.rows.at(-1)?.result },
      ])
      expect(found?.rows.at(-1)?.result.state).to.equal(row)
      expect(found?.state).to.equal(state)
    })
  }

  for (const [at, [title, tamper, state, says]] of rows.entries()) {
    it(`is ${colours[state]} if ${title}`, async () => {
      const dir = mkdtempSync(join(home.path, 'log-'))
      const own = join(dir, 'log')
      const { origin } = build(own, `svc-audit.invalid/${at}`)
      expect((await verify(own))?.state).to.equal('ok')
      tamper(own, origin)
      for (const again of [1, 2]) {
        const found = await verify(own, origin).catch((error: { code?: string }) => ({
          state: 'error',
          rows: [{ name: '', result: { state: 'failed', reason: error.code ?? '' } }],
        }))
        const text = found?.rows
          .map(
            ({ name, result }) =>
              `${name}: ${'detail' in result ? result.detail : 'reason' in result ? result.reason : ''}`,
          )
          .join('; ')
        expect(text, `time ${again}`).to.match(says)
        expect(found?.state, text).to.equal(state)
      }
    })
  }

  it('is of the record in the proof, and red if the gateway states another one beside it', async () => {
    const dir = join(home.path, 'stated')
    build(dir, 'svc-audit.invalid/stated')
    const stated = JSON.parse(readFileSync(join(dir, FILE), 'utf8').split('\n')[1] ?? '')
    const shown = { day: DAY, origin: undefined, trusts: () => false, witnessKeys: '' }
    const honest = await verifyRecord(apiOf(dir), LEAF, { ...shown, stated })
    expect([honest?.state, honest?.record]).to.deep.equal(['ok', stated])
    const lying = await verifyRecord(apiOf(dir), LEAF, { ...shown, stated: { ...stated, tool: 'other@1' } })
    expect([lying?.state, lying?.record]).to.deep.equal(['failed', stated])
    expect(lying?.rows.filter(({ result }) => result.state !== 'ok').map(({ name }) => name)).to.deep.equal([
      'Stated record',
    ])
  })

  it('is red if the log is rolled back to the head that was first seen, and stays red', async () => {
    const dir = join(home.path, 'grown')
    const { origin } = build(dir, 'svc-audit.invalid/grown')
    for (const pairs of [3, 4, 5]) {
      replace({ pairs })(dir, origin)
      expect((await verify(dir, origin))?.state).to.equal('ok')
    }
    replace({ pairs: 3 })(dir, origin)
    for (const again of [1, 2]) expect((await verify(dir, origin))?.state, `time ${again}`).to.equal('failed')
    replace({ pairs: 5 })(dir, origin)
    expect((await verify(dir, origin))?.state).to.equal('ok')
  })
})
