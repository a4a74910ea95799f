// Follows docs/operations on one host, block by block, with a real issuer, control plane and bucket: from the key to a restored log.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { type Bucket, startBucket } from '../support/bucket.js'
import { addKey, startControlPlane, type TestControlPlane } from '../support/control-plane.js'
import { Running } from '../support/gateway-process.js'
import { TestIssuer } from '../support/issuer.js'
import { blocks } from '../support/pages.js'
import { svc } from '../support/svc.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

const blocksOf = (page: string, language = 'sh') =>
  blocks.filter((block) => block.page === page && block.language === language).map(({ text }) => text)

const owner = { tenant: 'acme', environment: 'prod', clientName: 'edge-1', clientVersion: '1.0.0' }

describe('docs/operations, followed from an empty directory', function () {
  this.timeout(120_000)
  const home = new TemporaryDir()
  let bucket: Bucket
  let plane: TestControlPlane
  let issuer: TestIssuer
  let upstream: TestUpstream
  let apiKey: string
  let gateway: Running
  let line: Awaited<ReturnType<Running['line']>>

  before(async () => {
    bucket = await startBucket()
    const keys = join(home.path, 'api-keys.json')
    apiKey = addKey(keys, owner)
    writeFileSync(join(home.path, 'read.key'), addKey(keys, owner, '--read'), { mode: 0o600 })
    plane = await startControlPlane(bucket, keys)
    issuer = await TestIssuer.start({ audience: 'https://gateway.example.com' })
    upstream = await startUpstream()
  })

  after(async () => {
    await gateway?.[Symbol.asyncDispose]()
    for (const part of [upstream, issuer, plane, bucket]) await part?.[Symbol.asyncDispose]()
    home[Symbol.dispose]()
  })

  /** The text with what stands in for other machines, and for this machine's directories and ports. */
  const local = (text: string) =>
    text
      .replaceAll('http://10.0.0.5:8788', upstream.url)
      .replaceAll('https://audit.example.com', plane.url)
      .replaceAll('https://id.example.com/jwks', issuer.jwksUri)
      .replaceAll('https://id.example.com/', issuer.issuer)
      .replaceAll('/var/lib/svc', join(home.path, 'state'))
      .replaceAll('npx svc-sdk', `${process.execPath} ${svc}`)
      .replaceAll('svck_…', apiKey)
      .replaceAll('https://localhost:8787', () => line?.url?.replace('0.0.0.0', 'localhost') ?? '')
      .replaceAll('http://127.0.0.1:9090', () => line?.adminUrl ?? '')

  const run = async (text: string) => {
    const env = { ...process.env, SVC_AUDIT_KEY: apiKey }
    return (await promisify(execFile)('sh', ['-ec', local(text)], { cwd: home.path, env })).stdout
  }

  const start = async (dir = 'state') => {
    const policy = join(home.path, 'policy.yaml')
    const flags = ['--policy', policy, '--port', '0', '--dir', join(home.path, dir)]
    gateway = new Running(flags, { SVC_AUDIT_KEY: apiKey })
    line = await gateway.line('listening')
  }

  const stop = async () => {
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
  }

  const reload = async (signer: string) => {
    const file = join(home.path, 'policy.yaml')
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

  it('makes keys, checks the policy and the surroundings, and starts', async () => {
    const [policy = ''] = blocksOf('docs/operations/install.md', 'yaml')
    const [, certificate = ''] = /(mkdir -p tls.*)/s.exec(blocksOf('docs/server.md')[0] ?? '') ?? []
    const [commands = ''] = blocksOf('docs/operations/install.md')
    const [, before = '', last = ''] = /^(.*\n)([^\n]*gateway[^\n]*)\n$/s.exec(commands) ?? []
    expect(last).to.equal('npx svc-sdk gateway --policy policy.yaml')
    // Ports of the machine that runs the test may be in use.
    writeFileSync(join(home.path, 'policy.yaml'), local(policy).replace('9090', '0').replace('8787', '0'))
    await run(certificate)
    await run(before.replace('export SVC_AUDIT_KEY=…', ''))
    await start()
    expect(await call()).to.equal('{"echoed":{}}')
  })

  it('reads its health and metrics', async () => {
    const [, health = ''] = blocksOf('docs/operations/install.md')
    expect(await run(health)).to.match(/^\{"status":"ready"\}# HELP/)
    const repair = blocksOf('docs/operations/recover.md').at(-1) ?? ''
    expect(await run(repair)).to.match(/^\{"status":"ready"\}Filesystem/)
  })

  it('changes the signing key while it serves', async () => {
    const rotation = blocksOf('docs/operations/recover.md').find((text) => text.includes('rotate')) ?? ''
    const steps = rotation.split('\n').filter(Boolean)
    for (const step of steps) {
      const signer = /(signer: \{.*\})/.exec(step)?.[1]
      await (signer === undefined ? run(step) : reload(signer))
      expect(await call()).to.equal('{"echoed":{}}')
    }
    await stop()
    await run('npx svc-sdk audit verify /var/lib/svc/audit --keys audit.pub')
  })

  it('restores the log from the bucket, and goes on with it or forks it', async () => {
    const [restore = '', choose = ''] = blocksOf('docs/operations/recover.md')
    await run(restore)
    cpSync(join(home.path, 'restored'), join(home.path, 'copied'), { recursive: true })
    await run(choose)
    for (const name of ['restored', 'copied']) {
      mkdirSync(join(home.path, `state-${name}`))
      renameSync(join(home.path, name), join(home.path, `state-${name}`, 'audit'))
      await start(`state-${name}`)
      expect(await call()).to.equal('{"echoed":{}}')
      await stop()
    }
    const lines = await run(
      'npx svc-sdk audit show state-restored/audit; npx svc-sdk audit show state-copied/audit',
    )
    const logs = lines.split('\n').flatMap((record) => /"log_id":"(\w+)"/.exec(record)?.[1] ?? [])
    expect(new Set(logs).size, 'logs: the same, and a new one').to.equal(2)
  })
})
