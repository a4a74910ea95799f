// Redis servers for one test: on free loopback ports, each in a temporary directory, killed on disposal.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { Certificate, TestAuthority } from './certificates.js'
import { endWithRunner } from './child-lifetime.js'
import { freePort } from './loopback.js'

export interface RedisServer extends AsyncDisposable {
  readonly port: number
  readonly url: string
  /** One command on a connection of its own. */
  send(command: string, ...args: (string | number)[]): Promise<unknown>
  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>
  /** The same port, with what was saved (nothing, unless the arguments say so). */
  restart(): Promise<void>
}

export async function startRedis(args: readonly string[] = [], port?: number): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-redis-'))
  const at = port ?? (await freePort())
  const url = `redis://127.0.0.1:${at}`
  const spawned = () => spawnRedis(dir, at, args)
  let child = await spawned()
  return {
    port: at,
    url,
    send: (...command) => sendTo(url, ...command),
    async kill(signal) {
      const exit = once(child, 'exit')
      child.kill(signal)
      if (signal === 'SIGKILL') await exit
    },
    async restart() {
      child = await spawned()
    },
    async [Symbol.asyncDispose]() {
      await killed(child)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** A server that speaks TLS alone, with this certificate, on 127.0.0.1 and 127.0.0.2. */
export async function startTlsRedis({
  certFile,
  keyFile,
}: {
  readonly certFile: string
  readonly keyFile: string
}): Promise<{ readonly port: number } & AsyncDisposable> {
  const port = await freePort()
  const tls = ['--tls-port', String(port), '--tls-cert-file', certFile, '--tls-key-file', keyFile]
  const args = [
    ...tls,
    '--tls-ca-cert-file',
    certFile,
    '--tls-auth-clients',
    'no',
    '--bind',
    '127.0.0.1',
    '127.0.0.2',
  ]
  const dir = mkdtempSync(join(tmpdir(), 'svc-redis-'))
  const child = await spawnRedis(dir, 0, args)
  return {
    port,
    async [Symbol.asyncDispose]() {
      await killed(child)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

export interface RedisCluster extends AsyncDisposable {
  /** The primaries; the replica of the first, if there is one, comes last. */
  readonly nodes: readonly RedisServer[]
  /** Of the same nodes, if they speak TLS. */
  readonly tlsPorts: readonly number[]
}

interface ClusterOptions {
  /** Whether the first primary has a replica. */
  readonly replica?: boolean
  /** Clients and nodes speak TLS with this certificate; a port without it is there for the test. */
  readonly tls?: { readonly authority: TestAuthority; readonly node: Certificate }
}

/** Three primaries. */
export async function startRedisCluster({
  replica = false,
  tls,
}: ClusterOptions = {}): Promise<RedisCluster> {
  const common = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '500']
  const tlsPorts: number[] = []
  const startNode = async () => {
    if (tls === undefined) return startRedis(common, await clusterPort())
    const port = await clusterPort()
    tlsPorts.push(port)
    const { certFile, keyFile } = tls.node
    return startRedis([
      ...common,
      ...['--tls-port', `${port}`, '--tls-cluster', 'yes', '--tls-auth-clients', 'no'],
      ...['--tls-cert-file', certFile, '--tls-key-file', keyFile],
      ...['--tls-ca-cert-file', tls.authority.root.certFile],
    ])
  }
  const nodes: RedisServer[] = []
  const cluster = {
    nodes,
    tlsPorts,
    async [Symbol.asyncDispose]() {
      for (const node of nodes) await node[Symbol.asyncDispose]()
    },
  }
  try {
    for (let node = 0; node < (replica ? 4 : 3); node++) nodes.push(await startNode())
    const [first] = nodes
    if (first === undefined) throw new Error('no nodes')
    for (const [i, node] of nodes.entries()) {
      if (i < 3) {
        const [from, to] = [Math.floor((16_384 * i) / 3), Math.floor((16_384 * (i + 1)) / 3) - 1]
        // ADDSLOTSRANGE is of Redis 7.
        await node.send('CLUSTER', 'ADDSLOTS', ...Array.from({ length: to - from + 1 }, (_, at) => from + at))
        await node.send('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
      }
      if (node !== first) await node.send('CLUSTER', 'MEET', '127.0.0.1', tlsPorts[0] ?? first.port)
    }
    const slotsKnown = async () =>
      (await Promise.all(nodes.map((node) => node.send('CLUSTER', 'INFO')))).every(
        (info) =>
          String(info).includes('cluster_state:ok') &&
          String(info).includes(`cluster_known_nodes:${nodes.length}`),
      )
    await until(slotsKnown)
    if (replica) {
      const last = nodes[3]
      await last?.send('CLUSTER', 'REPLICATE', String(await first.send('CLUSTER', 'MYID')))
      await until(async () =>
        String(await last?.send('INFO', 'replication')).includes('master_link_status:up'),
      )
      // Every node must know of it before it can be voted for.
      await until(async () =>
        (await Promise.all(nodes.map((node) => node.send('CLUSTER', 'NODES')))).every((text) =>
          /\bslave\b/.test(String(text)),
        ),
      )
    }
    return cluster
  } catch (error) {
    await cluster[Symbol.asyncDispose]()
    throw error
  }
}

/** A Sentinel that watches `primary` under the name `main` and makes a replica the primary half a second after it is gone. */
export async function startSentinel(
  primary: RedisServer,
): Promise<Pick<RedisServer, 'url' | 'send'> & AsyncDisposable> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-sentinel-'))
  const port = await freePort()
  const file = join(dir, 'sentinel.conf')
  writeFileSync(
    file,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `sentinel monitor main 127.0.0.1 ${primary.port} 1`,
      'sentinel down-after-milliseconds main 500',
      'sentinel failover-timeout main 2000',
    ].join('\n'),
  )
  const child = endWithRunner(
    spawn('redis-server', [file, '--sentinel'], { stdio: ['ignore', 'pipe', 'ignore'] }),
  )
  await saying(child, '+monitor master main')
  const url = `redis://127.0.0.1:${port}`
  return {
    url,
    send: (...command) => sendTo(url, ...command),
    async [Symbol.asyncDispose]() {
      await killed(child)
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** Asks again until it holds. Rejects after 15 seconds. */
export async function until(holds: () => Promise<boolean>, patienceMs = 15_000): Promise<void> {
  const giveUp = performance.now() + patienceMs
  while (!(await holds())) {
    if (performance.now() > giveUp) throw new Error('the condition did not hold in time')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function sendTo(url: string, command: string, ...args: (string | number)[]): Promise<unknown> {
  // A Sentinel's INFO does not look like a server's, so it is not waited for.
  const client = new Redis(url, { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null })
  const failed = once(client, 'error').then(([error]) => {
    throw error
  })
  failed.catch(() => undefined)
  try {
    return await Promise.race([client.call(command, ...args), failed])
  } finally {
    client.disconnect()
  }
}

async function spawnRedis(dir: string, port: number, args: readonly string[]): Promise<ChildProcess> {
  // By default, a primary waits five seconds for further replicas before it serves the first one.
  const always = ['--save', '', '--repl-diskless-sync-delay', '0']
  const child = endWithRunner(
    spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, ...always, ...args], {
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  )
  await saying(child, 'Ready to accept connections')
  return child
}

/** Resolves when the server logs these words. */
function saying(child: ChildProcess, words: string): Promise<void> {
  let said = ''
  return new Promise<void>((resolve, reject) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text
      if (said.includes(words)) resolve()
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}: ${said}`)))
  })
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

/** The bus of a cluster's node has a port of its own, 10,000 above. */
async function clusterPort(): Promise<number> {
  for (;;) {
    const port = await freePort()
    if (port <= 55_535) return port
  }
}
