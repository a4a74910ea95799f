// The cost of the pipeline for a call of a function: without a log, and with a durable log compared with bare appends.
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { bind, type Logger, tokens } from '@svc/core'
import { generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { createPipeline, governed, type PipelineOptions } from 'svc-sdk'
import { envelope } from './audit.js'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const ROUNDS = 7
const CALLS = 4_000
const IN_FLIGHT = 64
const MAX_ADDED_MICROS = 15

const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}

const add = ({ a, b }: { a: number; b: number }): number => a + b
const args = { a: 1, b: 2 }

type Work = () => Promise<unknown>

/** CPU microseconds of a call in each round. */
export async function measureInProcess(disk: string, quick: boolean): Promise<Record<string, number[]>> {
  heading('A governed function')
  const home = mkdtempSync(join(disk, 'svc-bench-'))
  const keyRef = `file://${join(home, 'key')}`
  generateKeyFile(join(home, 'key'))
  const options = (audit: object): PipelineOptions => ({
    tenant: 'acme',
    sec0Dir: join(home, 'state'),
    audit: { gatewayName: 'bench', gatewayVersion: '1.0.0', intent: 'off', ...audit },
    quotas: { adapter: 'memory' },
    authn: { allowUnauthenticated: true },
    entitlements: { default_plan: 'all', plans: { all: { allowlist: ['calc/*'] } }, tenants: {} },
    configure: (container) => bind(container, tokens.Logger, { useValue: silent }),
  })
  const plain = createPipeline(options({ append: async () => undefined }))
  const durable = createPipeline(options({ dir: join(home, 'calls'), signer: { keyRef } }))
  const appender = new SvcAppender({
    config: { dir: join(home, 'appends'), retentionDays: 9999 },
    signer: LocalDevSigner.fromSeed(new Uint8Array(32).fill(1)),
  })
  const tool = { server: 'calc', name: 'add', version: '1.0.0' }
  const works: Readonly<Record<string, Work>> = {
    'the function alone': async () => add(args),
    'governed, records dropped': bound(governed(plain, tool, add)),
    'governed, durable records': bound(governed(durable, tool, add)),
    'a durable append': () => appender.append(envelope(0, false)),
  }
  try {
    const micros = await measured(works, quick ? 3 : ROUNDS)
    const spreads = Object.entries(micros).map(([name, rounds]) => ({ name, spread: spreadOf(rounds) }))
    table([['', 'CPU µs a call'], ...spreads.map(({ name, spread }) => [name, figure(spread, 1)])])
    const [bare, dropped, recorded, appended] = spreads.map(({ spread }) => spread.median)
    print(
      `  added by the pipeline: ${((dropped ?? 0) - (bare ?? 0)).toFixed(1)} µs (target ${MAX_ADDED_MICROS})`,
    )
    print(`  governed and durable ÷ append: ${((recorded ?? 0) / (appended ?? 1)).toFixed(2)}`)
    return micros
  } finally {
    await Promise.all([plain.close(), durable.close(), appender.close()])
    rmSync(home, { recursive: true, force: true })
  }
}

function bound(call: (given: typeof args) => Promise<number>): Work {
  return () => call(args)
}

/** Rounds of all works alternate, so that other load of the machine affects all of them. */
async function measured(
  works: Readonly<Record<string, Work>>,
  rounds: number,
): Promise<Record<string, number[]>> {
  const taken = new Map(Object.keys(works).map((name) => [name, [] as number[]]))
  for (const work of Object.values(works)) await cpuMicros(work)
  for (let round = 0; round < rounds; round++) {
    for (const [name, work] of Object.entries(works)) taken.get(name)?.push(await cpuMicros(work))
  }
  return Object.fromEntries(taken)
}

/** CPU of the whole process for a call, with several in flight. */
async function cpuMicros(work: Work): Promise<number> {
  const before = process.cpuUsage()
  let left = CALLS
  const caller = async (): Promise<void> => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, caller))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / CALLS
}
