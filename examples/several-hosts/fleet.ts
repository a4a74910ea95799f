// The programs of the example, on free ports of loopback: three gateways, each with a directory of its own as on a host of its
// own, HAProxy before them, a tool server behind them, and what they share.
import { type ChildProcess, execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { freePorts } from './free-ports.js'
import { Program, type ProgramOptions } from './program.js'
import { startUploadStore, type UploadStore } from './upload-store.js'

const run = promisify(execFile)
const svc = fileURLToPath(new URL('../bin/svc.js', import.meta.resolve('svc-sdk')))
const file = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url))

const redisNodes = 6
const hostNames = ['host-1', 'host-2', 'host-3'] as const

export interface Host {
  readonly name: string
  readonly url: string
  /** The policy, the signing key and, in `state`, the log. */
  readonly dir: string
  readonly gateway: Program
}

export interface RedisNode {
  readonly node: Program
  readonly port: number
}

export interface FleetOptions {
  /** HAProxy's; 0, the default, picks a free one. */
  readonly port?: number
  /** Called with each process. */
  readonly onSpawn?: (child: ChildProcess) => void
}

export class Fleet {
  readonly hosts: Host[] = []
  /** Three primaries and their replicas. */
  readonly redis: RedisNode[] = []
  readonly dir = mkdtempSync(join(tmpdir(), 'svc-several-hosts-'))
  /** HAProxy's. */
  url = ''
  shopUrl = ''
  uploadStore: UploadStore = { url: '', keysFile: '', keys: new Map() }
  readonly #programs: Program[] = []
  #isEnding = false
  readonly #onSpawn: (child: ChildProcess) => void

  private constructor({ onSpawn = () => undefined }: FleetOptions) {
    this.#onSpawn = onSpawn
  }

  static async start(options: FleetOptions = {}): Promise<Fleet> {
    const fleet = new Fleet(options)
    try {
      await fleet.#start(options.port)
    } catch (error) {
      await fleet.end()
      throw error
    }
    return fleet
  }

  async #start(port = 0): Promise<void> {
    const ports = await freePorts(redisNodes * 2 + hostNames.length + 2)
    const next = () => ports.pop() ?? 0
    mkdirSync(join(this.dir, 'output'))
    await Promise.all([this.#startRedis(next), this.#startUploadStore(), this.#startShop(next())])
    await Promise.all(hostNames.map((name) => this.#startHost(name, next())))
    this.hosts.sort((one, other) => one.name.localeCompare(other.name))
    await this.#startProxy(port || next())
  }

  /** Makes the policy the host's, without an interruption. Rejects if the gateway refuses it. */
  async rollOut(host: Host, policy: string): Promise<void> {
    writeFileSync(join(host.dir, 'policy.yaml'), policy)
    const reloaded = host.gateway.prints(/"policy reloaded"/)
    host.gateway.signal('SIGHUP')
    await reloaded
  }

  /** Resolves when all nodes of Redis serve, and every replica has the data of its primary. */
  async redisIsWhole(): Promise<void> {
    await Promise.all(this.redis.map(({ port }) => isInCluster(port)))
  }

  /** The nodes of Redis that are a primary now. */
  async primaries(): Promise<RedisNode[]> {
    const roles = await Promise.all(
      this.redis.map(async (one) => ({
        one,
        isPrimary: one.node.pid !== undefined && (await isPrimary(one.port)),
      })),
    )
    return roles.filter(({ isPrimary }) => isPrimary).map(({ one }) => one)
  }

  /** The log's directory of a host. */
  logOf(host: Host): string {
    return join(host.dir, 'state', 'audit')
  }

  /** Ends all: first the gateways, which then upload the end of their logs. */
  async end(): Promise<void> {
    this.#isEnding = true
    await Promise.all(this.hosts.map(({ gateway }) => gateway.end('SIGTERM')))
    await Promise.all(this.#programs.map((program) => program.end('SIGTERM')))
  }

  async #startRedis(next: () => number): Promise<void> {
    for (let node = 1; node <= redisNodes; node++) {
      const name = `redis-${node}`
      const port = next()
      const cwd = join(this.dir, name)
      mkdirSync(cwd)
      const args = [file('redis.conf'), '--port', String(port), '--cluster-port', String(next())]
      const program = this.#program({
        name,
        command: 'redis-server',
        args,
        cwd,
        ready: /Ready to accept connections/,
      })
      this.redis.push({ node: program, port })
    }
    await Promise.all(this.redis.map(({ node }) => node.start()))
    const nodes = this.redis.map(({ port }) => `127.0.0.1:${port}`)
    await run('redis-cli', ['--cluster', 'create', ...nodes, '--cluster-replicas', '1', '--cluster-yes'])
    await this.redisIsWhole()
  }

  async #startUploadStore(): Promise<void> {
    this.uploadStore = await startUploadStore({
      dir: this.dir,
      tenant: 'acme',
      gateways: hostNames,
      program: (options) => this.#program(options),
    })
  }

  async #startShop(port: number): Promise<void> {
    const args = [fileURLToPath(new URL('./shop.js', import.meta.url))]
    const env = { PORT: String(port) }
    const ready = /listening/
    await this.#program({
      name: 'shop',
      command: process.execPath,
      args,
      cwd: this.dir,
      env,
      ready,
    }).start()
    this.shopUrl = `http://127.0.0.1:${port}`
  }

  async #startHost(name: string, port: number): Promise<void> {
    const dir = join(this.dir, name)
    mkdirSync(dir)
    await run(process.execPath, [svc, 'keys', 'generate', '--out', join(dir, 'audit.key')])
    writeFileSync(join(dir, 'policy.yaml'), readFileSync(file('policy.yaml')))
    const [one, two, three] = this.redis.map((node) => `127.0.0.1:${node.port}`)
    const env = {
      HOST_NAME: name,
      SHOP_URL: this.shopUrl,
      CONTROL_PLANE_URL: this.uploadStore.url,
      SVC_AUDIT_KEY: this.uploadStore.keys.get(name) ?? '',
      REDIS_1: `redis://${one}`,
      REDIS_2: `${two}`,
      REDIS_3: `${three}`,
    }
    const args = [svc, 'gateway', '--policy', 'policy.yaml', '--port', String(port)]
    const gateway = this.#program({
      name,
      command: process.execPath,
      args,
      cwd: dir,
      env,
      ready: /"listening"/,
    })
    this.hosts.push({ name, url: `http://127.0.0.1:${port}`, dir, gateway })
    await gateway.start()
  }

  async #startProxy(port: number): Promise<void> {
    const addresses = this.hosts.map(({ url }) => new URL(url).host)
    const env = {
      PORT: String(port),
      ...Object.fromEntries(addresses.map((address, at) => [`HOST_${at + 1}`, address])),
    }
    this.url = `http://127.0.0.1:${port}`
    const args = ['-db', '-f', file('haproxy.cfg')]
    await this.#program({
      name: 'haproxy',
      command: 'haproxy',
      args,
      cwd: this.dir,
      env,
      ready: `${this.url}/readyz`,
    }).start()
  }

  #program(options: Omit<ProgramOptions, 'output' | 'onSpawn'>): Program {
    if (this.#isEnding) throw new Error('another program did not start')
    const output = join(this.dir, 'output', `${options.name}.txt`)
    const program = new Program({ ...options, output, onSpawn: this.#onSpawn })
    this.#programs.push(program)
    return program
  }
}

/** Resolves when the node serves all slots, and if it is a replica, has the data of its primary. */
async function isInCluster(port: number): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const isLinked = (await replication(port)).match(/role:master|master_link_status:up/) !== null
    if (isLinked && (await redisCli(port, 'cluster', 'info')).includes('cluster_state:ok')) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`the Redis at port ${port} is not in the cluster`)
}

const isPrimary = async (port: number) => (await replication(port)).includes('role:master')
const replication = (port: number) => redisCli(port, 'info', 'replication')

async function redisCli(port: number, ...command: readonly string[]): Promise<string> {
  return (await run('redis-cli', ['-p', String(port), ...command])).stdout
}
