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
const run = promisify(execFile)

/** The block of the page in that language that holds `mark`. */
function block(page: string, language: string, mark: string): string {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)]
  const found = blocks.find(([, name, lines]) => name === language && lines?.includes(mark))
  return found?.[2] ?? expect.fail(`${page} has no ${language} block with ${mark}`)
}

describe('the READMEs', () => {
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

  it('show how to write the log from a program', async () => {
    await node(block('app/README.md', 'ts', 'new SvcAppender'))
    const keys = await readKeys(join(directory, '.svc', 'signing.key'))
    const report = await verifyLog(join(directory, 'audit'), { keys })
    expect(report).to.deep.include({ verdict: 'intact', records: 1, verified: 1 })
  })

  for (const page of ['README.md', 'app/README.md']) {
    it(`show a policy that a gateway starts on from a program: ${page}`, async () => {
      await writeFile(join(directory, 'policy.yaml'), block(page, 'yaml', 'enforcement:'))
      const program = block('app/README.md', 'ts', 'startGatewayServer').replace('port: 8787', 'port: 0')
      const printed = await node(`${program}\nawait gateway.close()\n`)
      expect(printed).to.match(/^listening on http:\/\/127\.0\.0\.1:\d+\n$/)
    })
  }

  it('have a first page of at most 120 lines', () => {
    expect(readFileSync(join(root, 'README.md'), 'utf8').trimEnd().split('\n').length).to.be.at.most(120)
  })
})
