// The policies that docs/brokers.md shows, loaded as they stand there.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { svc } from '../support/svc.js'

const page = readFileSync(fileURLToPath(new URL('../../../docs/brokers.md', import.meta.url)), 'utf8')
const policies = [...page.matchAll(/^```yaml\n(tenant:.*?)^```$/gms)].map(([, text]) => text ?? '')

describe('docs/brokers.md', () => {
  let home: string

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  })

  afterEach(() => rmSync(home, { recursive: true, force: true }))

  async function run(...args: string[]): Promise<string> {
    return (await promisify(execFile)(process.execPath, [svc, 'policy', ...args], { cwd: home })).stdout
  }

  it('shows a policy that is accepted, and what policy explain says of it', async () => {
    const [policy = ''] = policies
    writeFileSync(join(home, 'policy.yaml'), policy)
    expect(await run('check', 'policy.yaml')).to.match(/^policy\.yaml: OK, \d stages: .*, brokers$/m)
    const [, command, line] = /`npx svc policy (explain [^`]*)` says\s+`([^`]*)`/.exec(page) ?? []
    const said = await run(...(command ?? '').split(/\s+/))
    expect(said.split('\n')).to.include(line)
  })
})
