// A gateway whose log's disk fills up: it refuses what it cannot record, loses no acknowledged record, serves
// again when there is room, and closes and starts again while there is none.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bind, tokens } from '@svc/core'
import { LocalDevSigner, type SignedEnvelope, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { memoryLogger } from '../../plugins/audit/log/writer/records.js'
import type { Chance } from '../../support/chance.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'
import { type Experiment, eachRound, expectIntact, expectOnceEach, type Figures } from './experiment.js'
import { type SmallDisk, smallDisk } from './small-disk.js'

// More calls than fit on the disk: 400 records of about 900 bytes, with their trees and journals.
const MOST_CALLS_TO_FILL = 400
const MOST_CALLS_TO_RECOVER = 3

export const fullDisk: Experiment = {
  name: 'full-disk',
  full: 30,
  short: 1,
  rounds: (count, seed) => eachRound(count, seed, round),
}

/** The spans of the calls, by the response's status or error code. */
type Responses = Map<string, string[]>

async function round(chance: Chance, dir: string): Promise<Figures> {
  using disk = smallDisk(dir)
  await using upstream = await startUpstream()
  const { options, finish } = logOn(disk, dir)
  const gateway = await startTestGateway((home) => ({ ...options(home), targets: { files: upstream.url } }))
  let signer: LocalDevSigner
  const responses: Responses = new Map()
  const responded = (kind: string) => responses.get(kind)?.length ?? 0
  try {
    signer = LocalDevSigner.fromKeyRef(keyRefIn(gateway.dir))
    await call(gateway, chance, responses, 20)
    expect([...responses.keys()], 'responses while there is room').to.deep.equal(['200'])

    disk.fill(chance.int(0, 60_000))
    await untilRefused(gateway, chance, responses)
    expect([...responses.keys()]).to.include.members(['200', 'AUDIT_UNAVAILABLE'])

    disk.clear()
    const before = responded('200')
    for (let i = 0; i < MOST_CALLS_TO_RECOVER && responded('200') === before; i++) {
      await call(gateway, chance, responses, 1)
    }
    expect(responded('200'), 'serves again').to.be.greaterThan(before)
    const refused = responded('AUDIT_UNAVAILABLE')
    await call(gateway, chance, responses, 20)
    expect(responded('AUDIT_UNAVAILABLE'), 'refusals after that').to.equal(refused)
    expect((await fetch(`${gateway.url}/readyz`)).status).to.equal(200)

    disk.fill(chance.int(0, 8_192))
    await untilRefused(gateway, chance, responses)
  } finally {
    await gateway[Symbol.asyncDispose]()
    await finish()
  }

  disk.clear()
  const after = new SvcAppender({ config: { dir, retentionDays: 30 }, signer, logger: memoryLogger() })
  await after.ready()
  await after.close()
  await expectIntact(dir, signer)
  expectOnceEach(spansIn(dir), responses.get('200') ?? [])
  expect(
    [...responses.keys()].filter(
      (kind) => !['200', 'AUDIT_UNAVAILABLE', 'OUTCOME_UNRECORDED'].includes(kind),
    ),
    'other responses',
  ).to.deep.equal([])
  return {
    disk: disk.kind,
    ...Object.fromEntries([...responses].map(([kind, spans]) => [kind, spans.length])),
  }
}

/** The gateway opens a log on a disk that is small itself; for the simulated one it is given the log. */
function logOn({ fileSystem }: SmallDisk, dir: string) {
  let given: SvcAppender | undefined
  const options = (home: string): Omit<GatewaySettings, 'targets'> => {
    const keyRef = `file://${join(home, 'key')}`
    const identity = { gatewayName: 'gw', gatewayVersion: '1.0.0', minFreeMb: 0 }
    const base = {
      port: 0,
      tenant: 'acme',
      quotas: { adapter: 'memory' as const },
      entitlements: 'open' as const,
    }
    if (fileSystem === undefined) {
      return {
        ...base,
        audit: { ...identity, dir, signer: { keyRef }, checkpointIntervalMs: 100 },
      }
    }
    return {
      ...base,
      audit: { ...identity, dir },
      configure(container) {
        const signer = LocalDevSigner.fromKeyRef(keyRef)
        const config = { dir, retentionDays: 30, minFreeBytes: 0, checkpoints: { intervalMs: 100 } }
        given = new SvcAppender({ config, signer, fileSystem, logger: memoryLogger() })
        bind(container, tokens.SvcAppender, { useValue: given })
      },
    }
  }
  return { options, finish: async () => given?.close() }
}

function keyRefIn(auditDir: string): string {
  return `file://${join(auditDir, '..', 'key')}`
}

async function untilRefused(gateway: TestGateway, chance: Chance, responses: Responses): Promise<void> {
  const before = responses.get('AUDIT_UNAVAILABLE')?.length ?? 0
  for (let calls = 0; calls < MOST_CALLS_TO_FILL; ) {
    const burst = chance.int(1, 8)
    await call(gateway, chance, responses, burst)
    if ((responses.get('AUDIT_UNAVAILABLE')?.length ?? 0) > before) return
    calls += burst
  }
  throw new Error(`none of ${MOST_CALLS_TO_FILL} calls on a full disk was refused with AUDIT_UNAVAILABLE`)
}

/** Sends concurrent calls, some of tools that need an intent before they are sent. */
async function call(gateway: TestGateway, chance: Chance, spans: Responses, count: number): Promise<void> {
  const tools = Array.from({ length: count }, () => chance.pick(['read', 'write_file']))
  const responses = await Promise.all(tools.map((tool) => gateway.invoke(`/mcp/files/${tool}@1`)))
  for (const response of responses) {
    const body = (await response.json()) as { error?: string }
    const kind = response.ok ? String(response.status) : (body.error ?? `${response.status}`)
    spans.set(kind, [...(spans.get(kind) ?? []), response.headers.get('x-span-id') ?? ''])
  }
}

function spansIn(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => /^audit-.*\.ndjson$/.test(name))
    .flatMap((name) => readFileSync(join(dir, name), 'utf8').split('\n').filter(Boolean))
    .map((line) => (JSON.parse(line) as SignedEnvelope).span_id)
}
