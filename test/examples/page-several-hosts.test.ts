// Three gateways as docs/operations/several-hosts.md has them, over TLS: callers to HAProxy, HAProxy to them, and they to Redis.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { Agent, request } from 'undici'
import { parse, stringify } from 'yaml'
import { TestAuthority } from '../support/certificates.js'
import { endWithRunner } from '../support/child-lifetime.js'
import { Running } from '../support/gateway-process.js'
import { TestIssuer } from '../support/issuer.js'
import { freePort } from '../support/loopback.js'
import { blocks, root } from '../support/pages.js'
import { type RedisServer, startRedis, until } from '../support/redis.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'

const page = 'docs/operations/several-hosts.md'
const blockOf = (language: string, from = page) =>
  blocks.find((block) => block.page === from && block.language === language)?.text ?? ''

const names = ['host-1', 'host-2', 'host-3']
const env = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` }
const hasProxy = spawnSync('haproxy', ['-v'], { env }).error === undefined

describe('the gateways, Redis and HAProxy of the page on several hosts', function () {
  this.timeout(120_000)
  const home = new TemporaryDir()
  const authority = new TestAuthority(home.path)
  const agent = new Agent({ connect: { ca: authority.root.cert } })
  const gateways: Running[] = []
  let redis: RedisServer
  let issuer: TestIssuer
  let upstream: TestUpstream
  const proxies: ChildProcess[] = []
  const urls: string[] = []

  before(async function () {
    if (!hasProxy) {
      process.stderr.write('skipped, as HAProxy is not installed: apt-get install haproxy\n')
      this.skip()
    }
    issuer = await TestIssuer.start({ audience: 'https://gateway.example.com' })
    upstream = await startUpstream()
    const redisPort = await freePort()
    writeCertificate('redis')
    copyFileSync(authority.root.certFile, join(home.path, 'ca.crt'))
    redis = await startRedis(
      blockOf('conf')
        .replaceAll('/etc/redis', home.path)
        .replace('6380', String(redisPort))
        .split('\n')
        .filter(Boolean)
        .flatMap((line) => `--${line}`.split(' ')),
    )
    for (const name of names) {
      writeHost(name, redisPort)
      const gateway = new Running(['--policy', join(home.path, name, 'policy.yaml'), '--port', '0'], {
        REDIS_PASSWORD: 'PASSWORD',
        NODE_EXTRA_CA_CERTS: join(home.path, 'ca.crt'),
      })
      gateways.push(gateway)
      urls.push((await gateway.line('listening')).url?.replace('0.0.0.0', '127.0.0.1') ?? '')
    }
  })

  after(async () => {
    for (const proxy of proxies) proxy.kill('SIGKILL')
    await agent.destroy()
    for (const part of [...gateways, upstream, issuer, redis]) await part?.[Symbol.asyncDispose]()
    home[Symbol.dispose]()
  })

  /** A certificate and its key, as two files and as one. */
  function writeCertificate(name: string) {
    const { key, cert } = authority.server(name)
    for (const [end, text] of [
      ['key', key],
      ['crt', cert],
      ['pem', cert + key],
    ] as const)
      writeFileSync(join(home.path, `${name}.${end}`), text)
  }

  /** The policy of Install with the sections of the page, and the files that it names. */
  function writeHost(name: string, redisPort: number) {
    const dir = join(home.path, name)
    for (const folder of ['keys', 'tls']) mkdirSync(join(dir, folder), { recursive: true })
    generateKeyFile(join(dir, 'keys/audit.key'))
    writeFileSync(join(dir, 'keys/admin-token'), 'a-token-of-the-operator', { mode: 0o600 })
    writeCertificate('gateway')
    for (const end of ['key', 'crt'])
      copyFileSync(join(home.path, `gateway.${end}`), join(dir, `tls/gateway.${end}`))
    const { audit, ...install } = parse(blockOf('yaml', 'docs/operations/install.md'))
    const { presign: _, ...log } = audit
    const policy = stringify({ ...install, audit: { ...log, gatewayName: name }, ...parse(blockOf('yaml')) })
    const local = policy
      .replaceAll('redis.example.com:6380', `localhost:${redisPort}`)
      .replaceAll('10.0.0.2', '127.0.0.1')
      .replaceAll('http://10.0.0.5:8788', upstream.url)
      .replaceAll('https://id.example.com/jwks', issuer.jwksUri)
      .replaceAll('https://id.example.com/', issuer.issuer)
      .replaceAll('/var/lib/svc', join(dir, 'state'))
      .replaceAll('9090', '0')
    writeFileSync(join(dir, 'policy.yaml'), local)
  }

  /** The example's configuration with the two lines of the page. Resolves with HAProxy's URL when it responds. */
  async function startProxy(publicName: string) {
    const [bind = '', server = ''] = blockOf('haproxy').split('\n')
    const example = readFileSync(join(root, 'examples/several-hosts/haproxy.cfg'), 'utf8')
    const port = await freePort()
    const local = example
      .replace(/^ *bind .*$/m, bind.replace(':443', `127.0.0.1:${port}`))
      .replace(/^ *default-server .*$/m, server)
      .replaceAll('/etc/haproxy', home.path)
      .replace('gateway.example.com', publicName)
    writeFileSync(join(home.path, 'haproxy.cfg'), local)
    const hosts = urls.map((one, at) => [`HOST_${at + 1}`, new URL(one).host])
    const options = { env: { ...env, ...Object.fromEntries(hosts) } }
    const child = spawn('haproxy', ['-db', '-f', join(home.path, 'haproxy.cfg')], options)
    proxies.push(endWithRunner(child))
    const url = `https://localhost:${port}`
    await until(async () => (await Promise.allSettled([get(`${url}/readyz`)]))[0].status === 'fulfilled')
    return url
  }

  async function get(url: string) {
    const { statusCode, body } = await request(url, { dispatcher: agent })
    return { statusCode, text: await body.text() }
  }

  const call = async (url: string) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${await issuer.sign()}` }
    const options = { method: 'POST', headers, body: '{}', dispatcher: agent } as const
    const response = await request(`${url}/mcp/billing/get_invoice@1.0.0`, options)
    const text = await response.body.text()
    expect(response.statusCode, text).to.equal(200)
    return response.headers['x-quota-remaining']
  }

  const recordsOf = (name: string) => {
    const log = join(home.path, name, 'state/audit')
    const days = readdirSync(log).filter((file) => /^audit-[\d-]+\.ndjson$/.test(file))
    return days.flatMap((day) => readFileSync(join(log, day), 'utf8').match(/"server":"billing@/g) ?? [])
  }

  it('serve calls at every host, and count them together', async () => {
    for (const one of urls) expect((await get(`${one}/readyz`)).text).to.equal('{"status":"ready"}')
    const url = await startProxy('localhost')
    const remaining: unknown[] = []
    for (let calls = 0; calls < 6; calls++) remaining.push(await call(url))
    expect(remaining).to.deep.equal(['999', '998', '997', '996', '995', '994'])
    for (const name of names) expect(recordsOf(name), `records of ${name}`).to.not.have.length(0)
  })

  it('get nothing from HAProxy if their certificates have another name than the public one', async () => {
    const url = await startProxy('gateway.example.com')
    expect((await get(`${url}/readyz`)).statusCode).to.equal(503)
  })
})
