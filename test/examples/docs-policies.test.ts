// Checks every policy, and every part of one, that the pages show.
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { parse, stringify } from 'yaml'
import { type Block, blocks, nameOf } from '../support/pages.js'
import { runPolicy } from '../support/policy-command.js'
import { temporaryDir } from '../support/temporary-dir.js'

const docs = fileURLToPath(new URL('../../../docs', import.meta.url))
const read = (page: string) => readFileSync(join(docs, page), 'utf8')
const policiesIn = (page: string) =>
  [...page.matchAll(/^```yaml\n(tenant:.*?)^```$/gms)].map(([, text]) => text ?? '')
const page = read('brokers.md')
const policies = policiesIn(page)

const yaml = blocks.filter(({ language }) => language === 'yaml')
const isWhole = ({ text }: Block) => /^tenant:/m.test(text)

/** Blocks that are no part of a policy, or need what only another test has. */
const others: Readonly<Record<string, string>> = {
  'docs/telemetry.md: scrape_configs:': 'for Prometheus',
  'docs/policies.md: callers:': 'cases of `policy test`',
  'docs/policies.md: allowlist:': 'lists of a tenant',
  'docs/writing-a-stage.md: plugins: [{ use: ./read-only.mjs, version: ^1 }]':
    'test/examples/whole-stage.test.ts',
  'docs/writing-a-stage.md: plugins:': 'test/examples/change-freeze.test.ts',
}
const parts = yaml.filter((block) => !isWhole(block) && others[nameOf(block)] === undefined)

/** What a part of a policy is checked with; its own keys take the place of these. */
const rest = {
  tenant: 'acme',
  port: 8787,
  targets: {
    files: 'http://127.0.0.1:9000',
    billing: 'http://127.0.0.1:9001',
    maps: 'http://127.0.0.1:9002',
    ...Object.fromEntries(
      ['admin', 'crm', 'git', 'legacy', 'search', 'shop', 'vault', 'web'].map((name) => [
        name,
        'http://127.0.0.1:9004',
      ]),
    ),
    mail: 'http://127.0.0.1:9003',
    psp: 'http://127.0.0.1:9003',
  },
  audit: { gatewayName: 'edge', gatewayVersion: '1.0.0', signer: { keyRef: 'file://audit.key' } },
  authn: {
    oidc: { issuer: 'https://id.example.com/', audience: 'edge', jwks_uri: 'https://id.example.com/jwks' },
  },
  entitlements: 'open',
  quotas: { adapter: 'memory' },
}

describe('the policies of the docs', () => {
  const home = temporaryDir()

  /** `args` are those of a shell in the directory of the policy. */
  async function run(...args: string[]): Promise<readonly string[]> {
    const own = args.map((arg) => (arg.endsWith('.yaml') ? join(home.path, arg) : arg))
    return (await runPolicy(own)).lines.map((line) => line.replaceAll(`${home.path}/`, ''))
  }

  /** Writes the policy with the files that it names. */
  function write(policy: string): void {
    const local = policy.replaceAll('file:///', 'file://').replaceAll(/\$\{env:\w+\}/g, 'secret')
    writeFileSync(join(home.path, 'policy.yaml'), local)
    for (const [, key = ''] of local.matchAll(/file:\/\/([\w./-]+)/g)) {
      const file = join(home.path, key)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, Buffer.alloc(32, 1).toString('base64'))
    }
  }

  for (const block of yaml.filter(isWhole)) {
    it(`shows a policy that is accepted: ${nameOf(block)}`, async () => {
      write(block.text)
      expect((await run('check', 'policy.yaml')).at(-1)).to.match(/^policy\.yaml: OK, \d+ stages: audit, /)
      expect(block.text, 'the key of the log, without which no gateway starts').to.match(/^ +signer:/m)
    })
  }

  for (const block of parts) {
    it(`shows a part of a policy that is accepted: ${nameOf(block)}`, async () => {
      const part = parse(block.text) as Record<string, unknown>
      const audit = { ...rest.audit, ...(part.audit as object) }
      write(stringify({ ...rest, ...part, audit }))
      const lines = await run('check', 'policy.yaml')
      expect(lines.at(-1), lines.join('\n')).to.match(/^policy\.yaml: OK, /)
    })
  }

  it('have no exception without a block', () => {
    expect(Object.keys(others).filter((name) => !yaml.some((block) => nameOf(block) === name))).to.deep.equal(
      [],
    )
  })

  for (const name of readdirSync(docs).filter((file) => file.endsWith('.md'))) {
    const text = read(name)
    if (policiesIn(text).length === 0) continue
    it(`say where the files and variables come from that their policies name: ${name}`, () => {
      const named = [
        ...policiesIn(text)
          .join('')
          .matchAll(/(?:file:\/\/|env:)([\w./-]+)/g),
      ].map(([, at]) => at ?? '')
      const elsewhere = text.replaceAll(/(?:file:\/\/|env:)[\w./-]+/g, '')
      expect(named.filter((at) => !elsewhere.includes(at))).to.deep.equal([])
    })
  }

  it('quotes what policy explain prints for a static key', async () => {
    writeFileSync(join(home.path, 'policy.yaml'), policies[0] ?? '')
    const [, command, line] = /`npx svc-sdk policy (explain [^`]*)` says\s+`([^`]*)`/.exec(page) ?? []
    expect(await run(...(command ?? '').split(/\s+/))).to.include(line)
  })

  it('quotes what policy explain prints for an escalation', async () => {
    const text = read('escalation.md')
    writeFileSync(join(home.path, 'policy.yaml'), policiesIn(text)[0] ?? '')
    const [, command, line] = /`npx svc-sdk policy (explain [^`]*)` says\s+```\n([^`]*)\n```/.exec(text) ?? []
    const args = (command ?? '').replace('FILE', 'policy.yaml').split(/\s+/)
    expect(await run(...args)).to.include(line)
  })

  it('quotes what policy explain prints for a runtime', async () => {
    const text = read('runtime.md')
    writeFileSync(join(home.path, 'policy.yaml'), policiesIn(text)[0] ?? '')
    const [, command, line] = /`npx svc-sdk policy (explain [^`]*)` prints\s+`([^`]*)`/.exec(text) ?? []
    expect(await run(...(command ?? '').split(/\s+/))).to.include(line)
  })

  it('has a command of policy explain that describes a token exchange', async () => {
    writeFileSync(join(home.path, 'policy.yaml'), policies[1] ?? '')
    const [, command] = /`npx svc-sdk policy (explain [^`]*--user[^`]*)`/.exec(page) ?? []
    expect((await run(...(command ?? '').split(/\s+/))).join('\n')).to.include(
      "brokers: exchanges the caller's token at https://id.example.com/token for the audience",
    )
  })

  it('shows a command that computes the pseudonym of a person', async () => {
    const [, command = ''] = /^```sh\n(.*?)^```$/ms.exec(read('privacy.md')) ?? []
    const key = 'k'.repeat(44)
    mkdirSync(join(home.path, '.svc'))
    writeFileSync(join(home.path, '.svc', 'privacy.key'), `${key}\n`)
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: home.path })
    expect(stdout).to.include(createHmac('sha256', key).update('ada@example.com').digest('hex'))
  })
})
