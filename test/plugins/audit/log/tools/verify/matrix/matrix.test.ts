import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { readKeys, type VerifyReport, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import type { LogBuilder } from '../../../../../../support/audit-log.js'
import { allKeys, buildLog, Files, trusted } from './fixture.js'
import type { Manipulation, VerifierOptions } from './manipulation.js'
import { manipulations } from './manipulations.js'
import { type PythonVerdict, verifyInPython } from './python.js'

const PAIRS = 60

interface Judged {
  readonly report: VerifyReport
  readonly python: PythonVerdict
}

function isUnchanged(template: string, dir: string): boolean {
  const names = readdirSync(template).filter((name) => statSync(join(template, name)).isFile())
  return names.every((name) => {
    const path = join(dir, name)
    return existsSync(path) && readFileSync(path).equals(readFileSync(join(template, name)))
  })
}

describe('the matrix of manipulations', function () {
  this.timeout(120_000)
  let root = ''
  let count = 0
  const singles = new Map<Manipulation, Judged>()
  const fast: Judged[] = []
  const strict: Judged[] = []
  const pairs: (readonly [string, Judged])[] = []

  /** A fresh copy of the log on which `manipulation` is made, or of its own log. */
  function prepare(log: LogBuilder, manipulation: Manipulation): string {
    const dir = join(root, `${count++}`)
    let own = log
    if (manipulation.build === undefined) cpSync(join(root, 'template'), dir, { recursive: true })
    else own = buildLog(dir, manipulation.build)
    manipulation.tamper?.(new Files(dir), own)
    return dir
  }

  function keyFile({ allKeys: isAll = false, leaves }: VerifierOptions): string {
    if (leaves === undefined) return join(root, isAll ? 'all-keys' : 'keys')
    const path = join(root, `keys-${leaves.join('-')}`)
    writeFileSync(path, trusted.map((key) => `${publicKeyLine(key)} ${leaves.join(' ')}\n`).join(''))
    return path
  }

  async function judge(
    jobs: readonly { dir: string; of: Manipulation }[],
    mode: { readonly fast?: boolean; readonly strict?: boolean } = {},
  ): Promise<Judged[]> {
    const python = verifyInPython(
      jobs.map(({ dir, of: { options = {} } }) => ({
        folder: dir,
        keys: keyFile(options),
        against: options.against === undefined ? undefined : join(dir, options.against),
        origin: options.origin,
        allow_unsealed: options.allowUnsealed ?? false,
        agents: options.agents ?? false,
        ...mode,
      })),
    )
    const judged: Judged[] = []
    for (const [at, { dir, of }] of jobs.entries()) {
      const { against, allKeys: _all, leaves: _leaves, ...options } = of.options ?? {}
      const report = await verifyLog(dir, {
        keys: await readKeys(keyFile(of.options ?? {})),
        ...options,
        ...mode,
        ...(against === undefined ? {} : { against: join(dir, against) }),
      })
      judged.push({ report, python: python[at]! })
    }
    return judged
  }

  before(async () => {
    root = mkdtempSync(join(tmpdir(), 'svc-matrix-'))
    writeFileSync(join(root, 'keys'), `${trusted.map(publicKeyLine).join('\n')}\n`)
    writeFileSync(join(root, 'all-keys'), `${allKeys.map(publicKeyLine).join('\n')}\n`)
    const log = buildLog(join(root, 'template'))
    const jobs = manipulations.map((of) => ({ dir: prepare(log, of), of }))
    for (const [at, judged] of (await judge(jobs)).entries()) singles.set(manipulations[at]!, judged)
    fast.push(...(await judge(jobs, { fast: true })))
    strict.push(...(await judge(jobs, { strict: true })))

    const found = manipulations.filter(
      (one) => one.build === undefined && (one.found?.length ?? 0) > 0 && one.options === undefined,
    )
    const both: { dir: string; of: Manipulation; title: string }[] = []
    // A fixed choice, spread over the table: each is paired with a later one.
    for (let i = 0; both.length < PAIRS && i < 10 * PAIRS; i++) {
      const [one, other] = [found[(i * 7) % found.length]!, found[(i * 11 + 3) % found.length]!]
      if (one === other) continue
      const dir = prepare(log, one)
      try {
        other.tamper?.(new Files(dir), log)
      } catch {
        // The first manipulation removed what the second changes.
        continue
      }
      // The second one may undo the first.
      if (isUnchanged(join(root, 'template'), dir)) continue
      both.push({ dir, of: {} as Manipulation, title: `${one.title}; ${other.title}` })
    }
    for (const [at, judged] of (await judge(both)).entries()) pairs.push([both[at]!.title, judged])
  })

  after(() => rmSync(root, { recursive: true, force: true }))

  const listed = (failures: readonly { file: string; line: number; kind: string }[]) =>
    failures.map(({ file, line, kind }) => `${file.replace(/^.*\/(?=head-)/, '')}:${line}: ${kind}`).sort()

  it('has at least 80 manipulations, each with its own title', () => {
    expect(manipulations.length).to.be.at.least(80)
    expect(new Set(manipulations.map(({ title }) => title)).size).to.equal(manipulations.length)
  })

  for (const manipulation of manipulations) {
    const { title, found = [], undetectable, cannotBeJudged } = manipulation
    it(`${undetectable === undefined ? 'finds' : 'cannot find'}: ${title}`, () => {
      const { report, python } = singles.get(manipulation)!
      expect(listed(report.failures)).to.deep.equal([...found].sort())
      expect(listed(python.failures), 'python').to.deep.equal(listed(report.failures))
      expect(python.verdict).to.equal(report.verdict)
      if (cannotBeJudged === undefined) {
        expect(report.verdict).to.equal(found.length === 0 ? 'intact' : 'not_intact')
        if (undetectable !== undefined) expect(found).to.deep.equal([])
      } else {
        expect(report.verdict).to.equal('cannot_be_judged')
        expect(report.reason).to.match(cannotBeJudged)
        expect(python.reason).to.match(cannotBeJudged)
      }
    })
  }

  for (const [mode, judged] of [
    ['they check the tree only', fast],
    ['they check every signature', strict],
  ] as const) {
    it(`is judged alike by both verifiers if ${mode}`, () => {
      for (const [at, { report, python }] of judged.entries()) {
        const title = manipulations[at]?.title
        expect(listed(python.failures), title).to.deep.equal(listed(report.failures))
        expect(python.verdict, title).to.equal(report.verdict)
      }
    })
  }

  it('holds only failures that a strict verifier finds too, which finds the forged signatures that others cover', () => {
    const more = manipulations.filter((manipulation, at) => {
      const [some, all] = [singles.get(manipulation)!, strict[at]!].map(({ report }) =>
        listed(report.failures),
      )
      expect(all, manipulation.title).to.include.members(some!)
      return all!.length > some!.length
    })
    expect(more.map(({ title }) => title)).to.include.members([
      'the signature of a checkpoint is forged, and later ones of its key agree',
      'the holder of the key seals a journal line with a wrong signature in its own name',
    ])
  })

  it('finds pairs of manipulations, and both verifiers find the same', () => {
    expect(pairs).to.have.length(PAIRS)
    for (const [title, { report, python }] of pairs) {
      expect(report.verdict, title).to.equal('not_intact')
      expect(python.verdict, title).to.equal('not_intact')
      const kinds = (of: readonly { kind: string }[]) => [...new Set(of.map(({ kind }) => kind))].sort()
      expect(kinds(python.failures), title).to.deep.equal(kinds(report.failures))
    }
  })
})
