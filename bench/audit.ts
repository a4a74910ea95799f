// Durable signed appends per second against the same signer's bare signing loop, in one run: what the
// log costs beyond the signature itself.

import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { canonicalize } from '@svc/core'
import { type AuditEnvelope, generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit'

const ROUNDS = 5
const RECORDS = 20_000
const IN_FLIGHT = [16, 64, 256]
const DIGEST = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'

/** An envelope of about 800 bytes with its signature, as the gateway writes one. */
export function envelope(i: number, agent: boolean): AuditEnvelope {
  return {
    ts: new Date().toISOString(),
    trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
    span_id: (i + 2 ** 32).toString(16).padStart(16, '0'),
    tenant: 'acme',
    environment: 'prod',
    client_name: 'agent-runner',
    client_version: '1.4.2',
    server: 'payments@2.1.0',
    tool: 'list-invoices@1.0.0',
    status: 'ok',
    latency_ms: 3.25,
    retries: 0,
    input_sha256: DIGEST,
    output_sha256: DIGEST,
    policy: { decision: 'allow', retention: 'standard' },
    idempotency_key: null,
    nodeId: agent ? `node-${i % 4}` : null,
    agentRef: agent ? `run-${i % 16}` : null,
    agentVariables: null,
    risk_tags: [],
    findings: [],
    node_type: 'gateway',
    gateway: 'gw@1.0.0',
    key_id: `ed25519:${DIGEST}`,
    mcp_method: 'tools/call',
  }
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN
}

/** Signatures per second over messages of an envelope's size. */
function bareSigning(signer: LocalDevSigner, message: Uint8Array): number {
  const start = performance.now()
  for (let i = 0; i < RECORDS; i++) signer.sign(message)
  return RECORDS / ((performance.now() - start) / 1000)
}

/** Milliseconds of one fdatasync after a write of a typical batch. */
function bareSync(dir: string): number {
  const path = join(dir, 'sync-probe')
  const fd = openSync(path, 'a', 0o600)
  const batch = Buffer.alloc(64 * 900, 0x61)
  const times: number[] = []
  for (let i = 0; i < 40; i++) {
    writeSync(fd, batch)
    const start = performance.now()
    fdatasyncSync(fd)
    times.push(performance.now() - start)
  }
  closeSync(fd)
  rmSync(path)
  return median(times)
}

/** Durable appends per second with `inFlight` callers, each of which waits for its record. */
async function appends(appender: SvcAppender, inFlight: number, agent: boolean): Promise<number> {
  const envelopes = Array.from({ length: RECORDS }, (_, i) => envelope(i, agent))
  let next = 0
  const caller = async () => {
    for (;;) {
      const record = envelopes[next++]
      if (record === undefined) return
      await appender.append(record)
    }
  }
  const start = performance.now()
  await Promise.all(Array.from({ length: inFlight }, caller))
  return RECORDS / ((performance.now() - start) / 1000)
}

export async function benchAudit(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-bench-audit-'))
  try {
    const key = join(dir, 'key')
    generateKeyFile(key)
    const signer = LocalDevSigner.fromKeyRef(`file://${key}`)
    const message = Buffer.from(canonicalize(envelope(0, true)))
    console.log(`audit: envelopes of ${message.length} bytes, signed ${message.length + 104}`)
    for (const agent of [false, true]) {
      for (const inFlight of IN_FLIGHT) {
        const appender = new SvcAppender({
          config: { dir: join(dir, `log-${agent}-${inFlight}`), retentionDays: 1 },
          signer,
        })
        await appender.ready()
        await appends(appender, inFlight, agent)
        const rounds: { bare: number; durable: number; sync: number }[] = []
        for (let round = 0; round < ROUNDS; round++) {
          rounds.push({
            bare: bareSigning(signer, message),
            durable: await appends(appender, inFlight, agent),
            sync: bareSync(dir),
          })
        }
        const { batches, appended } = appender.status()
        await appender.close()
        const bare = median(rounds.map((round) => round.bare))
        const durable = median(rounds.map((round) => round.durable))
        const ratio = median(rounds.map((round) => round.durable / round.bare))
        console.log(
          `  ${String(inFlight).padStart(4)} in flight${agent ? ', 16 agents' : ''}: ` +
            `${durable.toFixed(0)} appends/s, bare signing ${bare.toFixed(0)}/s, ratio ${ratio.toFixed(2)}, ` +
            `${(appended / batches).toFixed(0)} a batch, fdatasync ${median(rounds.map((r) => r.sync)).toFixed(3)} ms`,
        )
      }
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await benchAudit()
