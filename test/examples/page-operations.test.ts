// Follows docs/operations on one host, block by block, with the packed packages and a real issuer, control plane and bucket: from
// the directories to a restored log.
import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { smallDisk } from '../integration/audit/small-disk.js'
import { appenderIn, envelope, fixedClock } from '../plugins/audit/log/writer/records.js'
import { type Bucket, startBucket } from '../support/bucket.js'
import { addKey, startControlPlane, type TestControlPlane } from '../support/control-plane.js'
import { Running } from '../support/gateway-process.js'
import { TestIssuer } from '../support/issuer.js'
import { PackedInstall } from '../support/packed.js'
import { blocks } from '../support/pages.js'
import { until } from '../support/redis.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

const blocksOf = (page: string, language = 'sh') =>
  blocks.filter((block) => block.page === page && block.language === language).map(({ text }) => text)

const install = 'docs/operations/install.md'
const recover = 'docs/operations/recover.md'
const owner = { tenant: 'acme', environment: 'prod', clientName: 'edge-1', clientVersion: '1.0.0' }

const timeOf = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString()

describe('docs/operations, followed from an empty directory', function () {
  this.timeout(120_000)
  const home = new TemporaryDir()
  /** The directory that is /etc/svc on the page. */
  const etc = join(home.path, 'etc/svc')
  const program = join(home.path, 'opt/svc/node_modules/svc-sdk/bin/svc.js')
  let packed: PackedInstall
  let bucket: Bucket
  let plane: TestControlPlane
  let issuer: TestIssuer
  let upstream: TestUpstream
  let apiKey: string
  let gateway: Running
  let line: Awaited<ReturnType<Running['line']>>

  before(async () => {
    bucket = await startBucket()
    packed = new PackedInstall()
    const bin = join(packed.directory, 'node_modules/.bin')
    mkdirSync(bin)
    symlinkSync('../svc-sdk/bin/svc.js', join(bin, 'svc-sdk'))
    const keys = join(home.path, 'api-keys.json')
    apiKey = addKey(keys, owner)
    plane = await startControlPlane(bucket, keys)
    issuer = await TestIssuer.start({ audience: 'https://gateway.example.com' })
    upstream = await startUpstream()
  })

  after(async () => {
    await gateway?.[Symbol.asyncDispose]()
    for (const part of [upstream, issuer, plane, bucket]) await part?.[Symbol.asyncDispose]()
    packed?.remove()
    home[Symbol.dispose]()
  })

  /** The text with what stands in for other machines, and for this machine's directories and ports. */
  const local = (text: string) =>
    text
      .replaceAll('http://10.0.0.5:8788', upstream.url)
      .replaceAll('https://audit.example.com', plane.url)
      .replaceAll('https://id.example.com/jwks', issuer.jwksUri)
      .replaceAll('https://id.example.com/', issuer.issuer)
      .replaceAll(/(?<= )\/(?=var\/lib|etc|opt)/g, `${home.path}/`)
      .replaceAll('npx svc-sdk', `${process.execPath} ${program}`)
      .replaceAll('https://localhost:8787', () => line?.url?.replace('0.0.0.0', 'localhost') ?? '')
      .replaceAll('http://127.0.0.1:9090', () => line?.adminUrl ?? '')

  /** Commands of the superuser, of npm and of systemd that the test does itself or does without. */
  const stubs = () => `
    useradd() { :; }
    install() { shift 5; mkdir -p "$@"; }
    npm() { cp -a '${packed.directory}' "$3"; }
    systemctl() { :; }
    `

  const run = async (text: string, cwd = etc) => {
    const env = { ...process.env, SVC_AUDIT_KEY: apiKey }
    return (await promisify(execFile)('sh', ['-ec', stubs() + local(text)], { cwd, env })).stdout
  }

  const start = async (dir = 'svc') => {
    const policy = join(etc, 'policy.yaml')
    const flags = ['--policy', policy, '--port', '0', '--dir', join(home.path, 'var/lib', dir)]
    gateway = new Running(flags, { SVC_AUDIT_KEY: apiKey }, [program])
    line = await gateway.line('listening')
  }

  const stop = async () => {
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
  }

  const reload = async (signer: string) => {
    const file = join(etc, 'policy.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/signer: .*/, signer))
    gateway.child.kill('SIGHUP')
    await gateway.line('policy reloaded')
  }

  const call = async () => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${await issuer.sign()}` }
    const curl = Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`)
    const path = 'mcp/billing/get_invoice@1.0.0'
    return run(`curl -s --cacert tls/gateway.crt https://localhost:8787/${path} ${curl.join(' ')} -d '{}'`)
  }

  it('makes the directories and keys, checks the policy and the surroundings, and starts', async () => {
    const [directories = '', commands = ''] = blocksOf(install)
    mkdirSync(join(home.path, 'opt'))
    await run(directories, home.path)
    const [policy = ''] = blocksOf(install, 'yaml')
    const [, certificate = ''] = /(mkdir -p tls.*)/s.exec(blocksOf('docs/server.md')[0] ?? '') ?? []
    const [, before = '', last = ''] = /^(.*\n)([^\n]*gateway[^\n]*)\n$/s.exec(commands) ?? []
    expect(last).to.equal('npx svc-sdk gateway --policy policy.yaml')
    // Ports of the machine that runs the test may be in use.
    writeFileSync(join(etc, 'policy.yaml'), local(policy).replace('9090', '0').replace('8787', '0'))
    await run(certificate)
    await run(before.replace('export SVC_AUDIT_KEY=…', ''))
    await start()
    expect(await call()).to.equal('{"echoed":{}}')
  })

  it('reads its health and metrics', async () => {
    const health = blocksOf(install).find((text) => text.includes('/readyz')) ?? ''
    expect(await run(health)).to.match(/^\{"status":"ready"\}# HELP/)
  })

  it('is upgraded and rolled back on the same directory', async () => {
    const upgrade = blocksOf(install).find((text) => text.includes('systemctl restart')) ?? ''
    writeFileSync(join(etc, 'environment'), `SVC_AUDIT_KEY=${apiKey}\n`)
    const running: string[] = []
    for (const step of upgrade.split('\n')) {
      await run(step)
      if (!step.includes('systemctl restart')) continue
      await stop()
      await start()
      running.push(readlinkSync(join(home.path, 'opt/svc')))
      expect(await call()).to.equal('{"echoed":{}}')
      await run('npx svc-sdk audit verify /var/lib/svc/audit --keys keys/audit.pub')
    }
    expect(running).to.deep.equal(['svc-2', 'svc-1'])
  })

  it('changes the signing key while it serves', async () => {
    const rotation = blocksOf(recover).find((text) => text.includes('rotate')) ?? ''
    const steps = rotation.split('\n').filter(Boolean)
    for (const step of steps) {
      const signer = /(signer: \{.*\})/.exec(step)?.[1]
      await (signer === undefined ? run(step) : reload(signer))
      expect(await call()).to.equal('{"echoed":{}}')
    }
    await stop()
    await run('npx svc-sdk audit verify /var/lib/svc/audit --keys keys/audit.pub')
  })

  it('restores the log from the bucket, and goes on with it or forks it', async () => {
    const [restore = '', choose = ''] = blocksOf(recover)
    const readKey = addKey(join(home.path, 'api-keys.json'), owner, '--read')
    writeFileSync(join(etc, 'keys/read.key'), readKey, { mode: 0o600 })
    await run(restore)
    const lib = join(home.path, 'var/lib')
    cpSync(join(lib, 'svc/restored'), join(lib, 'svc/copied'), { recursive: true })
    await run(choose)
    const show: string[] = []
    for (const name of ['restored', 'copied']) {
      mkdirSync(join(lib, name))
      renameSync(join(lib, 'svc', name), join(lib, name, 'audit'))
      await start(name)
      expect(await call()).to.equal('{"echoed":{}}')
      await stop()
      show.push(await run(`npx svc-sdk audit show /var/lib/${name}/audit`))
    }
    const logs = show
      .flatMap((lines) => lines.split('\n'))
      .flatMap((record) => /"log_id":"(\w+)"/.exec(record)?.[1] ?? [])
    expect(new Set(logs).size, 'logs: the same, and a new one').to.equal(2)
  })

  it('has a full disk, refuses calls, and serves again after the remedy', async function () {
    const dir = join(home.path, 'var/lib/full')
    mkdirSync(dir)
    using disk = smallDisk(dir)
    if (disk.fileSystem !== undefined) {
      process.stderr.write(`skipped, as the log needs a disk of its own: ${disk.kind}\n`)
      this.skip()
    }
    try {
      // A clock that steps by more than 36 hours would keep the log from removing anything.
      for (const daysAgo of [4, 3, 2, 1]) await writeDay(join(dir, 'audit'), daysAgo)
      await start('full')
      disk.fill(0)
      await until(async () => (await call()).includes('AUDIT_UNAVAILABLE'))
      const repair = (blocksOf(recover).at(-1) ?? '').replace('/var/lib/svc', '/var/lib/full')
      expect(await run(repair)).to.match(/AUDIT_UNAVAILABLE.*no space left.*100%/s)
      await stop()
      disk.clear()
      disk.fill(131_072)
      const file = join(etc, 'policy.yaml')
      writeFileSync(file, readFileSync(file, 'utf8').replace('audit:', 'audit:\n  retentionDays: 1'))
      await start('full')
      await until(async () => !existsSync(join(dir, 'audit', `audit-${timeOf(4).slice(0, 10)}.ndjson`)))
      expect(await call()).to.equal('{"echoed":{}}')
      await stop()
      await run('npx svc-sdk audit verify /var/lib/full/audit --keys keys/next.key')
    } finally {
      await gateway[Symbol.asyncDispose]()
    }
  })

  async function writeDay(dir: string, daysAgo: number) {
    const signer = LocalDevSigner.fromKeyRef(`file://${join(etc, 'keys/next.key')}`)
    const config = { retentionDays: 365, origin: 'audit.example.com/edge-1' }
    const ts = timeOf(daysAgo)
    await using log = appenderIn(dir, { signer, clock: fixedClock(ts), config })
    await Promise.all(Array.from({ length: 50 }, () => log.append(envelope({ ts }))))
  }
})
