import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect } from 'chai'
import { svc } from '../../support/svc.js'

describe('svc control-plane', () => {
  let home: string
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-cli-'))
  })
  afterEach(() => rmSync(home, { recursive: true, force: true }))

  function run(program: string, ...args: string[]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, 'control-plane', ...args], {
      encoding: 'utf8',
    })
    return { status, stdout, stderr }
  }

  it('runs the command of @svc/control-plane', () => {
    const file = join(home, 'keys.json')
    const owner = '--tenant acme --environment prod --client-name edge --client-version 1'.split(' ')
    expect(run(svc, 'add-key', '--keys', file, ...owner).stdout).to.match(/^svck_[\w-]{43}\n$/)
    expect(JSON.parse(readFileSync(file, 'utf8')).keys[0]).to.include({ tenant: 'acme', clientVersion: '1' })
    expect(run(svc, '--help').stdout).to.match(/^Usage: svc control-plane \[options\] \[command\]\n/)
  })

  it('reports errors under its own name, with exit status 1', () => {
    expect(run(svc)).to.deep.equal({
      status: 1,
      stdout: '',
      stderr: 'svc control-plane: --bucket <name> and --keys <file> are required\n',
    })
  })

  it('says what to install where the package is missing', () => {
    const said = run(installWithoutControlPlane(home), '--bucket', 'audit-logs', '--keys', 'keys.json')
    expect(said).to.deep.equal({
      status: 1,
      stdout: '',
      stderr: 'svc: control-plane needs a package of its own: npm install @svc/control-plane\n',
    })
  })
})

/** Installs svc-sdk with the dependencies that its manifest names. Returns the path of its command. */
function installWithoutControlPlane(home: string): string {
  const source = dirname(dirname(svc))
  const installed = join(home, 'node_modules')
  const target = join(installed, 'svc-sdk')
  mkdirSync(join(installed, '@svc'), { recursive: true })
  for (const part of ['package.json', 'bin', 'dist']) {
    cpSync(join(source, part), join(target, part), { recursive: true })
  }
  const manifest: { dependencies: object } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
  for (const name of Object.keys(manifest.dependencies)) {
    symlinkSync(join(source, '../node_modules', name), join(installed, name))
  }
  return join(target, 'bin/svc.js')
}
