// docs/threat-model.yaml names controls and tests; this test checks that they exist.
import { existsSync, readFileSync } from 'node:fs'
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

const literals = [/'((?:\\.|[^'\\\n])+)'/g, /"((?:\\.|[^"\\\n])+)"/g, /`((?:\\.|[^`\\\n])+)`/g]

type IsTitle = (slug: string) => boolean

/** Whether a title ends with this text of a test; what a template fills in is any text. */
function endingWith(text: string): IsTitle | undefined {
  const parts = text.split(/\$\{[^}]*\}/).map((part) => slugOf(part.replaceAll('\\', '')))
  const [only = ''] = parts
  if (!parts.join('').includes('-')) return undefined
  if (parts.length === 1) return (slug) => slug === only || slug.endsWith(`-${only}`)
  const pattern = new RegExp(`(?:^|-)${parts.join('.*')}$`)
  return (slug) => pattern.test(slug)
}

const known = new Map<string, readonly IsTitle[]>()

/** The texts of a test file and of all that it imports by its path. */
function titlesIn(path: string): readonly IsTitle[] {
  const found = known.get(path)
  if (found !== undefined || !existsSync(path)) return found ?? []
  known.set(path, [])
  const code = readFileSync(path, 'utf8')
  const own = literals.flatMap((literal) =>
    [...code.matchAll(literal)].flatMap(([, text = '']) => endingWith(text) ?? []),
  )
  const imported = [...code.matchAll(/from '(\.[^']+)\.js'/g)].flatMap(([, name = '']) =>
    titlesIn(join(dirname(path), `${name}.ts`)),
  )
  known.set(path, [...own, ...imported])
  return [...own, ...imported]
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

  it('names tests that exist, by their titles', () => {
    const named = namedTests.filter(({ slug }) => slug !== undefined)
    expect(named).to.have.length.above(300)
    const missing = named.filter(
      ({ slug = '', file }) => !titlesIn(join(root, file)).some((isTitle) => isTitle(slug)),
    )
    expect(missing).to.deep.equal([])
  })
})
