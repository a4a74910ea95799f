// The example's hosts under load, while one is killed or drained, Redis loses a primary, or a policy is rolled out. At the end
// the callers' results, the calls that the tool server received and the records of all logs are counted against each other.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fleet, type Host } from '@svc/example-several-hosts/fleet'
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { endWithRunner } from '../../support/child-lifetime.js'
import { runSvc } from '../../support/command.js'
import { addKey } from '../../support/control-plane.js'
import { until } from '../../support/redis.js'
import { Callers, type CallResult } from './callers.js'
import { Conversations } from './conversations.js'

export const faults = ['kill', 'drain', 'failover', 'roll out'] as const
export type Fault = (typeof faults)[number]

/** The policy's for a day. */
const VOUCHERS = 75
const VOUCHERS_PER_FAULT = 20
const CALLERS = 6
/** Calls with an outcome before, during and after a fault. */
const CALLS = 40

interface ShopCall {
  readonly tool: string
  readonly key: string
  readonly trace: string
}

interface CallRecord {
  readonly server: string
  readonly trace_id: string
  readonly sent?: 'yes' | 'no' | 'unknown'
}

class Experiment implements AsyncDisposable {
  readonly #fleet: Fleet
  readonly #callers: Callers
  readonly #conversations: Conversations
  readonly #firstDay = today()
  #hasGifts = false

  private constructor(fleet: Fleet, callers: Callers, conversations: Conversations) {
    this.#fleet = fleet
    this.#callers = callers
    this.#conversations = conversations
  }

  static async start(): Promise<Experiment> {
    const fleet = await Fleet.start({ onSpawn: endWithRunner })
    try {
      const callers = new Callers()
      return new Experiment(fleet, callers, await Conversations.start(fleet, callers))
    } catch (error) {
      await fleet.end()
      throw error
    }
  }

  /** Injects the fault while calls are made. Resolves when all is whole again. */
  async inject(fault: Fault, chance: Chance): Promise<void> {
    const end = new AbortController()
    const approve = await this.#conversations.escalate()
    const calling = Promise.all([
      this.#sendVouchers(),
      this.#conversations.callUntil(end.signal),
      ...Array.from({ length: CALLERS }, () => this.#callUntil(end.signal)),
    ])
    const acting = (async () => {
      try {
        await this.#callers.further(CALLS)
        await Promise.all([this.#act(fault, chance), approve()])
        await this.#callers.further(CALLS)
      } finally {
        end.abort()
      }
    })()
    // A call without an outcome ends the experiment, which else would wait for further ones.
    await Promise.race([calling, acting])
    await Promise.all([calling, acting])
  }

  /** Ends the gateways, and counts. Returns the figures. */
  async count(): Promise<Record<string, number>> {
    await this.#sendVouchers()
    const replayed = await this.#replays()
    const shop = (await (await fetch(`${this.#fleet.shopUrl}/calls`)).json()) as ShopCall[]
    await Promise.all(this.#fleet.hosts.map(({ gateway }) => gateway.end('SIGTERM')))
    const records: CallRecord[] = []
    for (const host of this.#fleet.hosts) records.push(...(await this.#recordsOf(host)))
    const results = this.#callers.results
    compareShop(results, shop)
    this.#compareLimit(results, shop)
    compareRecords(results, shop, records)
    const having = (outcome: string) => results.filter((one) => one.outcome === outcome).length
    const attempts = results.flatMap((result) => result.attempts)
    return {
      ...this.#conversations.count(),
      'approved calls': results.filter(({ tool, outcome }) => tool === 'refund' && outcome === 'ok').length,
      calls: results.length,
      attempts: attempts.length,
      'without a response': attempts.filter(({ code }) => code === undefined).length,
      'outcomes unknown': having('unknown'),
      replayed,
      'received by the tool server': shop.length,
      records: records.length,
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#callers[Symbol.dispose]()
    await this.#fleet.end()
    await this.#conversations[Symbol.asyncDispose]()
    rmSync(this.#fleet.dir, { recursive: true })
  }

  async #callUntil(end: AbortSignal): Promise<void> {
    while (!end.aborted) await this.#callers.call(this.#fleet.url, 'pay')
  }

  async #sendVouchers(): Promise<void> {
    for (let sent = 0; sent < VOUCHERS_PER_FAULT; sent++)
      await this.#callers.call(this.#fleet.url, 'send_voucher')
  }

  async #act(fault: Fault, chance: Chance): Promise<void> {
    const { hosts } = this.#fleet
    const host = hosts[chance.int(0, hosts.length - 1)]!
    switch (fault) {
      case 'kill':
      case 'drain':
        await host.gateway.end(fault === 'kill' ? 'SIGKILL' : 'SIGTERM')
        await this.#callers.further(CALLS)
        return host.gateway.start()
      case 'failover': {
        const primaries = await this.#fleet.primaries()
        const { node } = primaries[chance.int(0, primaries.length - 1)]!
        await node.end('SIGKILL')
        await until(async () => (await this.#fleet.primaries()).length === primaries.length)
        await node.start()
        return this.#fleet.redisIsWhole()
      }
      case 'roll out':
        return this.#rollOut()
    }
  }

  /** Allows a tool on one host after the other, or no longer; no caller may notice. */
  async #rollOut(): Promise<void> {
    const { hosts } = this.#fleet
    const before = this.#callers.results.length
    this.#hasGifts = !this.#hasGifts
    const policy = readFileSync(join(hosts[0]!.dir, 'policy.yaml'), 'utf8')
    const tools = this.#hasGifts ? '[shop/give, shop/pay, ' : '[shop/pay, '
    const next = policy.replace(/\[(?:shop\/give, )?shop\/pay, /, tools)
    for (const [at, host] of hosts.entries()) {
      await this.#fleet.rollOut(host, next)
      await this.#callers.further(CALLS / 4)
      for (const [which, { url }] of hosts.entries()) {
        const { outcome } = await this.#callers.call(url, 'give')
        const isAllowed = which <= at === this.#hasGifts
        expect(outcome, `host ${which + 1} after that of host ${at + 1}`).to.equal(
          isAllowed ? 'ok' : 'not_allowed',
        )
      }
    }
    const repeated = this.#callers.results.slice(before).filter(({ attempts }) => attempts.length > 1)
    expect(repeated, 'calls that were repeated during the roll-out').to.deep.equal([])
  }

  /** Repeats calls at every host: each has the response of the first time. */
  async #replays(): Promise<number> {
    const done = this.#callers.results.filter(({ outcome }) => outcome === 'ok').slice(-50)
    for (const [at, { tool, key, body }] of done.entries()) {
      const again = await this.#callers.call(this.#fleet.hosts[at % 3]!.url, tool, key)
      // A policy that was rolled out since may deny it.
      if (again.outcome === 'ok') expect(again.body, `${tool} ${key}`).to.equal(body)
    }
    return done.length
  }

  #compareLimit(results: readonly CallResult[], shop: readonly ShopCall[]): void {
    const vouchers = results.filter(({ tool }) => tool === 'send_voucher')
    const sent = shop.filter(({ tool }) => tool.startsWith('send_voucher')).length
    // Counted by a gateway that died before it sent them.
    const broken = vouchers
      .flatMap(({ attempts }) => attempts)
      .filter(({ code }) => code === undefined).length
    const days = today() === this.#firstDay ? 1 : 2
    expect(sent, 'vouchers').to.be.at.most(VOUCHERS * days)
    if (vouchers.length >= VOUCHERS * days) expect(sent, 'vouchers').to.be.at.least(VOUCHERS - broken)
  }

  /** The records of calls in the log of a host, which is intact and whole in the bucket. */
  async #recordsOf(host: Host): Promise<CallRecord[]> {
    const { name, dir } = host
    const log = this.#fleet.logOf(host)
    const keys = ['--keys', join(dir, 'audit.key')]
    const owner = { tenant: 'acme', environment: 'prod', clientName: name, clientVersion: '1.0.0' }
    const readKey = join(dir, 'read.key')
    writeFileSync(readKey, addKey(this.#fleet.uploadStore.keysFile, owner, '--read'), { mode: 0o600 })
    const restored = join(dir, 'restored')
    const fetched = await runSvc(
      'audit',
      'fetch',
      this.#fleet.uploadStore.url,
      restored,
      '--key-file',
      readKey,
      ...keys,
    )
    expect(fetched.code, `${name}: ${fetched.out}${fetched.err}`).to.equal(0)
    for (const directory of [log, restored]) {
      const { code, out, err } = await runSvc('audit', 'verify', directory, ...keys)
      expect(code, `${name}: ${out}${err}`).to.equal(0)
    }
    expect(linesOf(restored), `the log of ${name} in the bucket`).to.deep.equal(linesOf(log))
    const records = linesOf(log).map((line) => JSON.parse(line) as CallRecord)
    return records.filter(({ server }) => server.startsWith('shop@'))
  }
}

/** Runs these faults, one after the other. Rejects with the seed. */
export async function runExperiment(order: readonly Fault[], seed: number): Promise<Record<string, number>> {
  const chance = new Chance(seed)
  await using experiment = await Experiment.start()
  let last = 'the start'
  try {
    for (const fault of order) {
      last = fault
      await experiment.inject(fault, chance)
    }
    last = 'the count'
    return await experiment.count()
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`seed ${seed}, ${last}: ${reason}`, { cause })
  }
}

const today = () => new Date().toISOString().slice(0, 10)

function linesOf(log: string): string[] {
  const days = readdirSync(log).filter((name) => /^audit-[\d-]+\.ndjson$/.test(name))
  return days.sort().flatMap((day) => readFileSync(join(log, day), 'utf8').split('\n').filter(Boolean))
}

/** The tool server received every call with a response once, and none that was refused. */
function compareShop(results: readonly CallResult[], shop: readonly ShopCall[]): void {
  const runs = new Map<string, number>()
  for (const { key } of shop) runs.set(key, (runs.get(key) ?? 0) + 1)
  expect(
    [...runs].filter(([, times]) => times > 1),
    'keys that ran twice',
  ).to.deep.equal([])
  const wrong = results.filter(({ key, outcome }) => {
    const ran = runs.has(key)
    return outcome === 'ok' ? !ran : outcome === 'quota_exceeded' && ran
  })
  expect(wrong, 'calls that are lost, or ran although they were refused').to.deep.equal([])
}

/** Every attempt with a response of a gateway has one record, every call that the tool server received too, and no other. */
function compareRecords(
  results: readonly CallResult[],
  shop: readonly ShopCall[],
  records: readonly CallRecord[],
): void {
  const recorded = new Map<string, CallRecord>()
  for (const record of records) {
    expect(recorded.has(record.trace_id), `a second record of ${record.trace_id}`).to.equal(false)
    recorded.set(record.trace_id, record)
  }
  const attempts = results.flatMap((result) => result.attempts)
  const lost = attempts.filter(({ trace, code }) => code !== undefined && !recorded.has(trace))
  expect(lost, 'responses without a record').to.deep.equal([])
  const unrecorded = shop.filter(({ trace }) => (recorded.get(trace)?.sent ?? 'no') === 'no')
  expect(unrecorded, 'calls that the tool server received without a record').to.deep.equal([])
  const known = new Set(attempts.map(({ trace }) => trace))
  const foreign = records.filter(({ trace_id }) => !known.has(trace_id))
  expect(foreign, 'records of calls that nobody made').to.deep.equal([])
}
