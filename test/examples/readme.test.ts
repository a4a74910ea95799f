// Runs the programs that the README and the docs show.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { readKeys, verifyLog } from 'svc-sdk/audit'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const run = promisify(execFile)

/** The block of that language that holds `mark`. */
function block(language: string, mark: string): string {
  const blocks = [...readme.matchAll(/^```(\w+)\n(.*?)^```$/gms)]
  const found = blocks.find(([, name, text]) => name === language && text?.includes(mark))
  return found?.[2] ?? expect.fail(`the README has no ${language} block with ${mark}`)
}

describe('the README', () => {
  let directory: string

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'svc-readme-'))
    await symlink(join(root, 'node_modules'), join(directory, 'node_modules'))
    generateKeyFile(join(directory, '.svc', 'signing.key'))
  })

  afterEach(() => rm(directory, { recursive: true }))

  async function node(program: string): Promise<string> {
    await writeFile(join(directory, 'program.mjs'), program)
    return (await run(process.execPath, ['program.mjs'], { cwd: directory })).stdout
  }

  it('shows how to write the log from a program', async () => {
    await node(block('ts', 'new SvcAppender'))
    const keys = await readKeys(join(directory, '.svc', 'signing.key'))
    const report = await verifyLog(join(directory, 'audit'), { keys })
    expect(report).to.deep.include({ verdict: 'intact', records: 1, verified: 1 })
  })

  it('shows a policy, and how to start a gateway on it from a program', async () => {
    await writeFile(join(directory, 'policy.yaml'), block('yaml', 'enforcement:'))
    const program = block('ts', 'startGatewayServer').replace('port: 8787', 'port: 0')
    const printed = await node(`${program}\nawait gateway.close()\n`)
    expect(printed).to.match(/^listening on http:\/\/127\.0\.0\.1:\d+\n$/)
  })
})
