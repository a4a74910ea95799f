// Loads the policies that the docs show.
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { runPolicy } from '../support/policy-command.js'
import { temporaryDir } from '../support/temporary-dir.js'

const docs = fileURLToPath(new URL('../../../docs', import.meta.url))
const read = (page: string) => readFileSync(join(docs, page), 'utf8')
const policiesIn = (page: string) =>
  [...page.matchAll(/^```yaml\n(tenant:.*?)^```$/gms)].map(([, text]) => text ?? '')
const page = read('brokers.md')
const policies = policiesIn(page)

const pages = [
  ...['authn.md', 'limits.md', 'idempotency.md', 'brokers.md', 'privacy.md', 'runtime.md', 'escalation.md'],
  ...['admin.md', 'server.md', 'deploying.md', 'witness.md', 'clients.md'],
]

describe('the policies of the docs', () => {
  const home = temporaryDir()

  /** `args` are those of a shell in the directory of the policy. */
  async function run(...args: string[]): Promise<readonly string[]> {
    const own = args.map((arg) => (arg.endsWith('.yaml') ? join(home.path, arg) : arg))
    return (await runPolicy(own)).lines.map((line) => line.replaceAll(`${home.path}/`, ''))
  }

  for (const [index, policy] of pages.flatMap((name) => policiesIn(read(name))).entries()) {
    it(`shows a policy that is accepted: ${index + 1}`, async () => {
      writeFileSync(join(home.path, 'policy.yaml'), policy.replaceAll(/\$\{env:\w+\}/g, 'secret'))
      for (const [, key = ''] of policy.matchAll(/file:\/\/([\w./-]+)/g)) {
        mkdirSync(dirname(join(home.path, key)), { recursive: true })
        writeFileSync(join(home.path, key), Buffer.alloc(32, 1).toString('base64'))
      }
      expect((await run('check', 'policy.yaml')).at(-1)).to.match(/^policy\.yaml: OK, \d stages: audit, /)
      expect(policy, 'the key of the log, without which no gateway starts').to.match(/^ +signer: /m)
    })
  }

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
