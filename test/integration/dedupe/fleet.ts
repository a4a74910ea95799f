// Gateway processes that share a store, in front of one upstream.
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { Running } from '../../support/gateway-process.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

export type StoreName = 'redis' | 'lmdb'

export interface HttpResponse {
  readonly status: number
  readonly mark: string | undefined
  readonly body: string
}

export class Fleet implements AsyncDisposable {
  readonly upstream: TestUpstream
  /** How long the upstream takes for a call, in milliseconds. */
  upstreamMs: () => number = () => 0
  #home: string
  #redis: RedisServer | undefined
  #members: { readonly process: Running; readonly url: string }[] = []
  #agent = new Agent({ keepAlive: true, maxSockets: 200 })

  private constructor(home: string, upstream: TestUpstream, redis: RedisServer | undefined) {
    this.#home = home
    this.upstream = upstream
    this.#redis = redis
  }

  static async start(size: number, store: StoreName): Promise<Fleet> {
    const home = await mkdtemp(join(tmpdir(), 'svc-fleet-'))
    const redis =
      store === 'redis' ? await startRedis(['--appendonly', 'yes', '--appendfsync', 'always']) : undefined
    const upstream = await startUpstream((call, response) => {
      const run = fleet.runs(call.headers['idempotency-key'])
      setTimeout(() => response.end(JSON.stringify({ run, args: JSON.parse(call.body) })), fleet.upstreamMs())
    })
    const fleet = new Fleet(home, upstream, redis)
    try {
      generateKeyFile(join(home, 'key'))
      writeFileSync(join(home, 'policy.yaml'), fleet.#policy())
      await Promise.all(Array.from({ length: size }, (_, member) => fleet.#spawn(member)))
      return fleet
    } catch (error) {
      await fleet[Symbol.asyncDispose]()
      throw error
    }
  }

  get size(): number {
    return this.#members.length
  }

  /** How many calls with this key the upstream received. */
  runs(key: string | string[] | undefined): number {
    return this.upstream.calls.filter(({ headers }) => headers['idempotency-key'] === key).length
  }

  /** Rejects when the connection breaks. */
  call(member: number, key: string): Promise<HttpResponse> {
    const { url } = this.#member(member)
    const body = JSON.stringify({ key })
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      'idempotency-key': key,
    }
    return new Promise((resolve, reject) => {
      const sending = request(`${url}/mcp/shop/pay@1.0.0`, { method: 'POST', headers, agent: this.#agent })
      sending.once('error', reject)
      sending.once('response', (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        response.once('error', reject)
        response.once('end', () => {
          const mark = response.headers['x-dedupe']
          resolve({ status: response.statusCode ?? 0, mark: mark?.toString(), body: text })
        })
      })
      sending.end(body)
    })
  }

  /** Kills a member and starts another in its place. */
  async replace(member: number): Promise<void> {
    await this.#member(member).process[Symbol.asyncDispose]()
    await this.#spawn(member)
  }

  /** Suspends a member. */
  async pause(member: number, ms: number): Promise<void> {
    const { child } = this.#member(member).process
    child.kill('SIGSTOP')
    await new Promise((resolve) => setTimeout(resolve, ms))
    child.kill('SIGCONT')
  }

  /** Kills Redis, which persists every write, and starts it again. */
  async restartStore(): Promise<void> {
    await this.#redis?.kill('SIGKILL')
    await this.#redis?.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy()
    await Promise.all(this.#members.map(({ process }) => process[Symbol.asyncDispose]()))
    await this.upstream[Symbol.asyncDispose]()
    await this.#redis?.[Symbol.asyncDispose]()
    await rm(this.#home, { recursive: true, force: true })
  }

  #member(index: number) {
    const member = this.#members[index]
    if (member === undefined) throw new Error(`there is no gateway ${index}`)
    return member
  }

  async #spawn(member: number): Promise<void> {
    const policy = join(this.#home, 'policy.yaml')
    const process = new Running(['--policy', policy, '--port', '0', '--dir', join(this.#home, 'state')])
    try {
      const { url } = await process.line('listening')
      if (url === undefined) throw new Error('the gateway tells no address')
      this.#members[member] = { process, url }
    } catch (error) {
      await process[Symbol.asyncDispose]()
      throw error
    }
  }

  #policy(): string {
    const store = this.#redis === undefined ? '' : `, redisUrl: "${this.#redis.url}"`
    return `
tenant: acme
port: 0
targets: { shop: "${this.upstream.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: "file://${this.#home}/key" } }
authn: { allowUnauthenticated: true }
entitlements: open
quotas: { adapter: memory }
dedupe: { leaseSec: 1, timeoutMs: 10000${store} }
`
  }
}
