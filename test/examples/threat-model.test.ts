// docs/threat-model.yaml names controls and tests; this test checks that they exist.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { attacksByArea } from '../support/threats.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const page = readFileSync(join(root, 'docs', 'threat-model.md'), 'utf8')

interface NamedTest {
  readonly file: string
  /** Absent if all tests of the file are named. */
  readonly slug?: string | undefined
}

const attacks = Object.values(attacksByArea).flat()

const namedTests: readonly NamedTest[] = attacks.flatMap(({ tests }) =>
  tests.map((test) => {
    const [file = '', slug] = test.split('#')
    return { file, slug }
  }),
)

const slugOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '')

const built = (file: string): string => join(root, file.replace('test/', 'test/dist/').replace(/ts$/, 'js'))

interface Titled {
  readonly file?: string | undefined
  readonly title: string
}

/** The tests of this run, which are all tests unless one file is run alone. */
function loadedTests(suite: Mocha.Suite): Titled[] {
  const own = suite.tests.map((test) => ({ file: test.file, title: test.fullTitle() }))
  return [...own, ...suite.suites.flatMap(loadedTests)]
}

/** The tests of these files, without running them. */
function testsIn(files: readonly string[]): Titled[] {
  if (files.length === 0) return []
  const mocha = join(dirname(createRequire(import.meta.url).resolve('mocha/package.json')), 'bin', 'mocha.js')
  const options = ['--no-config', '-n', 'conditions=svc-internal', '--dry-run', '--reporter', 'json']
  const stdout = execFileSync(process.execPath, [mocha, ...options, ...files.map(built)], {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'ignore'],
  }).toString()
  const { tests } = JSON.parse(stdout.slice(stdout.indexOf('{\n'))) as {
    tests: { fullTitle: string; file: string }[]
  }
  return tests.map(({ fullTitle, file }) => ({ file, title: fullTitle }))
}

describe('docs/threat-model.md', () => {
  it('has a section for each area of attacks', () => {
    const sections = [...page.matchAll(/^## (.*)$/gm)].map(([, title]) => title)
    expect(sections.slice(1)).to.deep.equal(Object.keys(attacksByArea))
  })

  it('has a control and a test for every attack, in files that exist', () => {
    expect(attacks).to.have.length.above(170)
    for (const { attack, stride, controls, tests } of attacks) {
      expect(stride, attack).to.match(/^[STRIDE]$/)
      expect(controls, attack).not.to.have.length(0)
      expect(tests, attack).not.to.have.length(0)
      const files = [...controls, ...tests.map((test) => test.replace(/#.*/, ''))]
      expect(
        files.filter((file) => !existsSync(join(root, file))),
        attack,
      ).to.deep.equal([])
    }
  })

  it('names tests that exist, by their titles', function () {
    this.timeout(180_000)
    const named = namedTests.filter(({ slug }) => slug !== undefined)
    expect(named).to.have.length.above(300)
    const files = [...new Set(named.map(({ file }) => file))]
    let suite = this.test?.parent
    while (suite?.parent !== undefined) suite = suite.parent
    const loaded = suite === undefined ? [] : loadedTests(suite)
    const known = new Set(loaded.map(({ file }) => file))
    const tests = [...loaded, ...testsIn(files.filter((file) => !known.has(built(file))))]
    const missing = named.filter(({ slug = '', file }) => {
      const isNamed = (title: string) => `-${slugOf(title)}`.endsWith(`-${slug}`)
      return !tests.some((test) => test.file === built(file) && isNamed(test.title))
    })
    expect(missing).to.deep.equal([])
  })
})
