// The unit for systemd: how far it confines the gateway, and its commands in a scratch directory.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { root } from '../../support/pages.js'
import { svc } from '../../support/svc.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { fileOf, hosts, ScratchHost } from './host.js'

const unit = join(hosts, 'svc-gateway.service')
const page = join(root, 'docs/operations/install.md')
const [, version = '0'] =
  /systemd (\d+)/.exec(spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' }).stdout ?? '') ?? []

describe('the unit for systemd', function () {
  this.timeout(120_000)
  const scratch = new TemporaryDir()
  after(() => scratch[Symbol.dispose]())

  const settings = new Map(
    [...fileOf('svc-gateway.service').matchAll(/^(\w+)=(.*)$/gm)].map(([, key, value]) => [key, value]),
  )
  /** The command, with the program of this build. */
  const words = (key: string) =>
    settings
      .get(key)!
      .replace('/usr/bin/node', process.execPath)
      .replace(/\/opt\/svc\S+svc\.js/, svc)
      .split(' ')

  it('is valid, and confines the gateway to an exposure below 3 of 10', function () {
    if (Number(version) < 250) {
      process.stderr.write('skipped, as systemd-analyze is older than 250 or not installed\n')
      this.skip()
    }
    execFileSync('systemd-analyze', ['security', '--offline=true', '--threshold=30', unit], { stdio: 'pipe' })
    // Whether it knows every key and value; it looks for the program too.
    const copy = join(scratch.path, 'svc-gateway.service')
    writeFileSync(copy, fileOf('svc-gateway.service').replace('/usr/bin/node', process.execPath))
    const { stderr } = spawnSync('systemd-analyze', ['verify', copy], { encoding: 'utf8' })
    expect(stderr).to.not.include('svc-gateway.service')
  })

  it('is one of several instances with the policy of its own that the page names', () => {
    const [expression = ''] = /(?<=sed ')s\/[^']+/.exec(readFileSync(page, 'utf8')) ?? []
    const template = execFileSync('sed', [expression, unit], { encoding: 'utf8' })
    expect(template).to.match(/^ExecStart=.* gateway --policy policy-%i\.yaml$/m)
    expect(template.replaceAll('policy-%i.yaml', 'policy.yaml')).to.equal(
      fileOf('svc-gateway.service').replaceAll('policy-%i.yaml', 'policy.yaml'),
    )
  })

  it('starts, reloads and stops the gateway, which writes to its state directory alone', async () => {
    await using host = await ScratchHost.start()
    await host.configure()
    expect(settings.get('StateDirectory')).to.equal('svc')
    await using making = host.start(
      [process.execPath, svc, 'keys', 'generate', '--out', '/var/lib/svc/audit.key'],
      {},
    )
    expect(await making.exit).to.equal(0)
    await using gateway = host.start(words('ExecStart'), host.env, settings.get('WorkingDirectory'))
    await gateway.prints(/"listening"/)
    const [kill = '', ...args] = words('ExecReload')
    execFileSync(
      kill,
      args.map((word) => word.replace('$MAINPID', String(gateway.pid))),
    )
    await gateway.prints(/"policy reloaded"/)
    // To this process alone, as others of the unit have calls to end.
    expect(settings.get('KillMode')).to.equal('mixed')
    gateway.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
  })
})
