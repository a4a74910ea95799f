// Compares the counters in Redis with the same script in a bare EVALSHA loop, on one server.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostClock } from '@svc/core'
import { RedisKeyValueStore, takeCounters } from '@svc/core/redis'
import { Redis } from 'ioredis'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const IN_FLIGHT = [1, 16, 64]
const SPACE = { name: 't/acme' }
const LIMIT = { key: 'mcp://files/read@1.0.0', max: 1e12, window: { ms: 86_400_000 } }

/** The rounds, by calls in flight. */
export async function measureRedis(_disk: string, quick: boolean): Promise<Record<string, Round[]>> {
  heading('Counting in Redis')
  const dir = mkdtempSync(join(tmpdir(), 'svc-bench-redis-'))
  const port = 20_000 + (process.pid % 10_000)
  const server = spawn('redis-server', [
    ...['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', ''],
  ])
  try {
    await listening(server)
    return await compare(`redis://127.0.0.1:${port}`, quick ? 5 : 31, 6_000)
  } finally {
    server.kill('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
  }
}

async function compare(url: string, rounds: number, calls: number): Promise<Record<string, Round[]>> {
  const loads: Record<string, Round[]> = {}
  const adapter = new RedisKeyValueStore({ url, keyPrefix: 'svc:quotas:', clock: hostClock })
  const bare = new Redis(url, { enableAutoPipelining: true })
  try {
    await adapter.connect(new AbortController().signal)
    await adapter.take(SPACE, [LIMIT])
    const { key, max, window } = LIMIT
    const limit = `w ${key} ${max} ${window.ms}`
    const loops = {
      adapter: () => adapter.take(SPACE, [LIMIT]),
      bare: () => bare.evalsha(takeCounters.sha, 1, `svc:quotas:{${SPACE.name}}`, '-', '', limit),
    }
    const rows = [
      ['in flight', 'adapter, calls/s', 'bare EVALSHA, calls/s', 'adapter / bare', 'CPU, bare / adapter'],
    ]
    for (const inFlight of IN_FLIGHT) {
      const of = inFlight === 1 ? calls / 4 : calls
      await speed(loops.adapter, of, inFlight)
      await speed(loops.bare, of, inFlight)
      const measured: Round[] = []
      loads[inFlight] = measured
      for (let round = 0; round < rounds; round++) {
        measured.push({
          adapter: await speed(loops.adapter, of, inFlight),
          bare: await speed(loops.bare, of, inFlight),
        })
      }
      rows.push([
        String(inFlight),
        figure(spreadOf(measured.map(({ adapter }) => adapter.rate)), 0),
        figure(spreadOf(measured.map(({ bare }) => bare.rate)), 0),
        figure(spreadOf(measured.map(({ adapter, bare }) => adapter.rate / bare.rate)), 2),
        figure(spreadOf(measured.map(({ adapter, bare }) => bare.cpu / adapter.cpu)), 2),
      ])
    }
    table(rows)
    print('  the same script, key and pipelining on both sides')
    return loads
  } finally {
    await adapter.close()
    bare.disconnect()
  }
}

interface Speed {
  /** Calls per second. */
  readonly rate: number
  /** CPU microseconds of this process per call, independent of other load. */
  readonly cpu: number
}

interface Round {
  readonly adapter: Speed
  readonly bare: Speed
}

/** With `inFlight` callers, each of which waits for its response. */
async function speed(call: () => Promise<unknown>, calls: number, inFlight: number): Promise<Speed> {
  let next = 0
  const caller = async () => {
    while (next++ < calls) await call()
  }
  const start = performance.now()
  const before = process.cpuUsage()
  await Promise.all(Array.from({ length: inFlight }, caller))
  const { user, system } = process.cpuUsage(before)
  return { rate: calls / ((performance.now() - start) / 1000), cpu: (user + system) / calls }
}

function listening(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    server.stdout?.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('Ready to accept connections')) resolve()
    })
    server.once('error', reject)
    server.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)))
  })
}
