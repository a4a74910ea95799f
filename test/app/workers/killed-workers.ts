// A gateway of two workers, of which one is killed at an exact file operation of a start, of calls, of a seal or of a reload.
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { runSvc } from '../../support/command.js'
import { type Running, startWorkers } from '../../support/gateway-process.js'
import { until } from '../../support/redis.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'
import type { KillOrder, KillPoint } from './kill-at.js'

export interface Kill extends KillPoint {
  readonly when: 'before' | 'after'
}

const phases = ['start', 'calls', 'reload'] as const
const FIRST_START = 'first start'

/** Calls that a tenant has; the long form sends more. */
const LIMIT = 150
const SERVING = 'worker started'
const ENDED = 'a worker has ended'
/** Milliseconds within which workers are replaced; each end in a row doubles the wait, up to five seconds. */
const PATIENCE_MS = 60_000

export class KilledWorkers implements AsyncDisposable {
  readonly #home: string
  readonly #upstream: TestUpstream
  readonly #gateway: Running
  readonly #url: string
  /** The traces of calls with a response. */
  readonly #traces: string[] = []
  #policies = 0

  private constructor(
    home: string,
    upstream: TestUpstream,
    gateway: Running,
    url: string,
    /** Whether a worker was killed in the first start. */
    readonly isReached: boolean,
  ) {
    this.#home = home
    this.#upstream = upstream
    this.#gateway = gateway
    this.#url = url
    void gateway.allLines()
  }

  /** With `at`, a worker is killed there in the first start; a gateway that this ends is started again. */
  static async start(at?: Kill): Promise<KilledWorkers> {
    const home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    generateKeyFile(join(home, 'key'))
    const upstream = await startUpstream()
    writeFileSync(join(home, 'policy.yaml'), policyOf(upstream.url, 0))
    const order: KillOrder = { phase: FIRST_START, ...(at === undefined ? {} : { at }) }
    writeFileSync(join(home, 'kill'), JSON.stringify(order))
    const run = () =>
      startWorkers(['--policy', join(home, 'policy.yaml')], {
        NODE_OPTIONS: `--import=${new URL('./kill-at.js', import.meta.url).href}`,
        SVC_TEST_KILL: join(home, 'kill'),
        SVC_TEST_DIR: join(home, '.svc'),
      })
    let gateway = run()
    let listening = await gateway.line('listening').catch(() => undefined)
    if (listening === undefined) {
      expect(await gateway.exit, gateway.stderr).to.equal(1)
      gateway = run()
      listening = await gateway.line('listening')
    }
    const isReached = !existsSync(join(home, 'kill'))
    rmSync(join(home, 'kill'), { force: true })
    return new KilledWorkers(home, upstream, gateway, listening.url ?? '', isReached)
  }

  /** The file operations of the first start. */
  firstPoints(): KillPoint[] {
    return this.#seen().filter(({ phase }) => phase === FIRST_START)
  }

  /** The file operations of each phase. */
  async points(): Promise<KillPoint[]> {
    await this.passPhases()
    return this.#seen().filter(({ phase }) => phase !== FIRST_START)
  }

  #seen(): KillPoint[] {
    const lines = readFileSync(this.#file('kill.seen'), 'utf8').trim().split('\n')
    return [...new Set(lines)].map((line) => JSON.parse(line) as KillPoint)
  }

  /** Passes the phases before this one, or all of them, without killing a worker at an operation. */
  async passPhases(before?: string): Promise<void> {
    for (const phase of phases) {
      if (phase === before) return
      await this.#act({ phase })
      rmSync(this.#file('kill'))
    }
  }

  /** Kills a worker there, and waits for its replacement. Resolves with false if no worker came there. */
  async kill(at: Kill): Promise<boolean> {
    const ends = this.#count(ENDED) + (at.phase === 'start' ? 1 : 0)
    await this.#act({ phase: at.phase, at })
    const isKilled = !existsSync(this.#file('kill'))
    if (isKilled) await this.#until(() => this.#count(ENDED) > ends && this.#isWhole)
    else rmSync(this.#file('kill'))
    await this.serves([200, 429])
    return isKilled
  }

  async serves(statuses: readonly number[]): Promise<void> {
    for (let i = 0; i < 2; i++) expect(await this.#call(), 'a call after it').to.be.oneOf([...statuses])
  }

  /** Ends the gateway, and compares its log with the responses and the calls that were sent. */
  async count(): Promise<{ readonly responses: number; readonly records: number; readonly sent: number }> {
    this.#gateway.child.kill('SIGTERM')
    expect(await this.#gateway.exit).to.equal(0)
    const log = this.#file('.svc/audit')
    const { out, code } = await runSvc('audit', 'verify', log, '--json')
    expect(code, out).to.equal(0)
    const shown = await runSvc('audit', 'show', log, '--tool', 'read', '--format', 'json')
    const lines = shown.out.trim().split('\n')
    const records = lines.map((line) => (JSON.parse(line) as { trace_id: string }).trace_id)
    const kept = new Set(records)
    const unrecorded = this.#traces.filter((trace) => !kept.has(trace))
    expect(unrecorded, 'responses without a record').to.deep.equal([])
    expect(records.length - kept.size, 'calls with two records').to.equal(0)
    const { length: sent } = this.#upstream.calls
    expect(sent, 'calls sent beyond the limit').to.be.at.most(LIMIT)
    return { responses: this.#traces.length, records: records.length, sent }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gateway[Symbol.asyncDispose]()
    await this.#upstream[Symbol.asyncDispose]()
    // The workers of a gateway that was killed end a little later.
    rmSync(this.#home, { recursive: true, force: true, maxRetries: 20 })
  }

  #file(name: string): string {
    return join(this.#home, name)
  }

  #count(...messages: string[]): number {
    return this.#gateway.lines.filter(({ msg }) => messages.includes(msg)).length
  }

  /** The last line about a worker. */
  #last(worker: number) {
    return this.#gateway.lines.findLast(
      (line) => line.worker === worker && [SERVING, ENDED].includes(line.msg),
    )
  }

  get #isWhole(): boolean {
    return [0, 1].every((worker) => this.#last(worker)?.msg === SERVING)
  }

  /** Rejects with the end of the gateway's log. */
  async #until(holds: () => boolean): Promise<void> {
    await until(async () => holds(), PATIENCE_MS).catch((cause: Error) => {
      const log = this.#gateway.lines.slice(-10).map((line) => JSON.stringify(line))
      throw new Error([cause.message, ...log, this.#gateway.stderr].join('\n'), { cause })
    })
  }

  /** Does what the phase is named after until a worker is killed, or it is over. */
  async #act(order: KillOrder): Promise<void> {
    await this.#until(() => this.#isWhole)
    writeFileSync(this.#file('kill.new'), JSON.stringify(order))
    renameSync(this.#file('kill.new'), this.#file('kill'))
    const isOver = (): boolean => !existsSync(this.#file('kill'))
    switch (order.phase) {
      case 'start': {
        const ends = this.#count(ENDED)
        process.kill(this.#last(ends % 2)?.pid ?? 0, 'SIGKILL')
        await this.#until(() => isOver() || (this.#count(ENDED) > ends && this.#isWhole))
        break
      }
      case 'calls':
        for (let sent = 0; sent < 40 && !isOver(); sent++) await this.#call()
        break
      default: {
        const results = ['policy reloaded', 'policy not reloaded; the old one stays in force']
        const before = this.#count(...results)
        writeFileSync(this.#file('policy.yaml'), policyOf(this.#upstream.url, ++this.#policies))
        this.#gateway.child.kill('SIGHUP')
        await this.#until(() => isOver() || this.#count(...results) > before + 1)
      }
    }
  }

  /** On a connection of its own. Resolves with the status; undefined if the worker ended meanwhile. */
  #call(): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const to = `${this.#url}/mcp/files/read@1`
      const sending = request(to, { method: 'POST', agent: false, timeout: 20_000 }, (response) => {
        response.resume().once('end', () => {
          if (response.complete) this.#traces.push(String(response.headers['x-trace-id']))
          resolve(response.statusCode)
        })
        response.once('error', () => resolve(undefined))
      })
      sending.once('timeout', () => sending.destroy(new Error('no response in time')))
      sending.once('error', (error: NodeJS.ErrnoException) =>
        error.code === 'ECONNRESET' ? resolve(undefined) : reject(error),
      )
      sending.end('{}')
    })
  }
}

/** A seal every 100 ms, and an intent before each call. `number` tells policies apart. */
function policyOf(target: string, number: number): string {
  return `tenant: acme
port: 0
targets: { files: "${target}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key }, checkpointIntervalMs: 100, intent: all }
entitlements: { default_plan: free, tenants: { acme: { plan: free, allowlist: [files/read] } }, plans: { free: { calls_per_day: ${LIMIT} } } }
quotas: { adapter: lmdb }
authn: { allowUnauthenticated: true }
vars: { number: ${number} }
`
}
