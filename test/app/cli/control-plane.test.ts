import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { installRequired } from '../../support/install-required.js'
import { svc } from '../../support/svc.js'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('svc control-plane', () => {
  const home = temporaryDir()

  function run(program: string, ...args: string[]) {
    return new Promise<{ status: unknown; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, [program, 'control-plane', ...args], (error, stdout, stderr) =>
        resolve({ status: error?.code ?? 0, stdout, stderr }),
      )
    })
  }

  it('runs the command of @svc/control-plane', async () => {
    const file = join(home.path, 'keys.json')
    const owner = '--tenant acme --environment prod --client-name edge --client-version 1'.split(' ')
    const [added, help] = await Promise.all([
      run(svc, 'add-key', '--keys', file, ...owner),
      run(svc, '--help'),
    ])
    expect(added.stdout).to.match(/^svck_[\w-]{43}\n$/)
    expect(JSON.parse(readFileSync(file, 'utf8')).keys[0]).to.include({ tenant: 'acme', clientVersion: '1' })
    expect(help.stdout).to.match(/^Usage: svc-sdk control-plane \[options\] \[command\]\n/)
  })

  it('reports errors under its own name, with exit status 1', async () => {
    expect(await run(svc)).to.deep.equal({
      status: 1,
      stdout: '',
      stderr: 'svc-sdk control-plane: --bucket <name> and --keys <file> are required\n',
    })
  })

  it('names the package to install if it is missing', async () => {
    const said = await run(
      join(installRequired(home.path, 'svc-sdk'), 'bin/svc.js'),
      '--bucket',
      'audit-logs',
      '--keys',
      'keys.json',
    )
    expect(said).to.deep.equal({
      status: 1,
      stdout: '',
      stderr:
        'svc-sdk control-plane: the control plane needs another package: npm install @svc/control-plane\n',
    })
  })
})
