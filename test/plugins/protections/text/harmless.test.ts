// Texts of servers and projects that nobody meant as an attack: the definitions of 35 MCP servers on npm (fixtures), and the
// documents of the packages that are installed here.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TextRole } from '@svc/plugin-protections/internal/text/rules'
import { TextScanner } from '@svc/plugin-protections/internal/text/scan'
import { expect } from 'chai'

const root = fileURLToPath(new URL('../../../../../', import.meta.url))

interface Server {
  readonly source: string
  readonly definitions: readonly (readonly [name: string, ...texts: string[]])[]
}

function servers(): readonly Server[] {
  const lines = readFileSync(join(root, 'test/fixtures/harmless-definitions.ndjson'), 'utf8')
    .trim()
    .split('\n')
  return lines.map((line) => JSON.parse(line) as Server)
}

/** The READMEs of installed packages. */
function documents(): readonly (readonly [string, string])[] {
  const modules = join(root, 'node_modules')
  const packages = readdirSync(modules).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(modules, name)).map((inner) => `${name}/${inner}`) : [name],
  )
  return packages
    .filter((name) => !name.startsWith('@svc/') && !name.startsWith('.'))
    .map((name) => [name, join(modules, name, 'README.md')] as const)
    .filter(([, file]) => existsSync(file))
    .map(([name, file]) => [name, readFileSync(file, 'utf8').slice(0, 50_000)] as const)
}

const certainIn =
  (role: TextRole, scanner = new TextScanner(role)) =>
  (text: string) =>
    scanner.scan(text).filter(({ certain }) => certain)

describe('the rules on harmless texts', () => {
  it('find nothing certain in 99 of 100 definitions of real servers', () => {
    const find = certainIn('definition')
    const all = servers().flatMap(({ source, definitions }) =>
      definitions.map(([name, ...texts]) => ({ source, name, texts })),
    )
    const found = all.filter(({ texts }) => texts.some((text) => find(text).length > 0))
    expect(all).to.have.length.greaterThan(400)
    expect(
      found.length / all.length,
      found.map(({ source, name }) => `${source} ${name}`).join(', '),
    ).to.be.at.most(0.01)
  })

  it('find nothing certain in 99 of 100 documents of packages, and nothing to deny in them as arguments', () => {
    const [find, findArgument] = [certainIn('result'), certainIn('argument')]
    const all = documents()
    const found = all.filter(([, text]) => find(text).length > 0).map(([name]) => name)
    expect(all).to.have.length.greaterThan(200)
    expect(found.length / all.length, found.join(', ')).to.be.at.most(0.01)
    const denied = all.filter(([, text]) => findArgument(text).some(({ rule }) => rule.class === 'command'))
    expect(denied.map(([name]) => name)).to.deep.equal([])
  })
})
