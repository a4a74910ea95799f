// An audit log of the library in a directory of its own.
import { createPublicKey, verify as verifySignature } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AppenderConfig, type AuditEnvelope, type SignedEnvelope, SvcAppender } from 'svc-sdk/audit'
import { canonicalize, LocalDevSigner, type Signer } from 'svc-sdk/signer'
import {
  type Cloud,
  type CloudRequest,
  type Interceptor,
  startCloud,
} from '../plugins/audit/log/upload/cloud.js'

const seed = new Uint8Array(32).fill(7)

export const presignFor = ({ url }: Pick<Cloud, 'url'>) => ({
  apiBaseUrl: url,
  auditKey: 'Bearer key-1',
  tenant: 'acme',
  environment: 'prod',
  clientName: 'edge',
  clientVersion: '1.0.0',
  timeoutMs: 5_000,
})

export interface TestLog extends AsyncDisposable {
  readonly dir: string
  /** Of `LocalDevSigner`. */
  readonly keyFile: string
  readonly signer: Signer
  readonly appender: SvcAppender
  /** The lines of a file, parsed. */
  lines(path: string): Record<string, unknown>[]
  text(path: string): string
  has(path: string): boolean
}

interface OpenOptions {
  /** In place of a `LocalDevSigner`. */
  readonly signer?: Signer
  /** Runs before the log opens. */
  prepare?(dir: string): void
}

export async function openLog(
  config: Partial<AppenderConfig> = {},
  { signer: own, prepare }: OpenOptions = {},
): Promise<TestLog> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-contract-'))
  writeFileSync(join(dir, 'key'), Buffer.from(seed).toString('base64'), { mode: 0o600 })
  const signer = own ?? LocalDevSigner.fromKeyRef(`file://${join(dir, 'key')}`)
  prepare?.(join(dir, 'log'))
  const appender = new SvcAppender({
    config: { dir: join(dir, 'log'), retentionDays: 30, ...config },
    signer,
    onAsyncError: () => undefined,
  })
  const text = (path: string) => readFileSync(join(dir, 'log', path), 'utf8')
  return {
    dir: join(dir, 'log'),
    keyFile: join(dir, 'key'),
    signer,
    appender,
    text,
    lines: (path) =>
      text(path)
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    has: (path) => existsSync(join(dir, 'log', path)),
    async [Symbol.asyncDispose]() {
      await appender.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** A writer on the directory of a closed one. */
export async function reopened(
  { dir, signer, ...log }: TestLog,
  config: Partial<AppenderConfig>,
): Promise<TestLog> {
  const appender = new SvcAppender({
    config: { dir, retentionDays: 30, ...config },
    signer,
    onAsyncError: () => undefined,
  })
  return { ...log, dir, signer, appender, [Symbol.asyncDispose]: () => appender.close() }
}

export interface UploadingLog extends TestLog {
  readonly cloud: Cloud
  /** The PUTs of records and payloads; checkpoints and the like are uploaded too. */
  puts(): CloudRequest[]
  /** The requests for URLs of those. */
  asks(): CloudRequest[]
}

const isOfRecords = (text: string) => /\/(?:ingest|agents|raw)\//.test(text)

/** Uploads when it is flushed. */
export async function openUploadingLog(
  presign: Partial<NonNullable<AppenderConfig['presign']>> = {},
  without: readonly string[] = [],
  error?: Interceptor,
): Promise<UploadingLog> {
  const cloud = await startCloud()
  if (error !== undefined) cloud.intercept = error
  const all = Object.entries({ ...presignFor(cloud), ...presign }).filter(([key]) => !without.includes(key))
  const config = {
    presign: { apiBaseUrl: cloud.url, auditKey: 'Bearer key-1', ...Object.fromEntries(all) },
  }
  const open = async (): Promise<TestLog> => {
    const log = await openLog(config)
    // The first round, at open, finds nothing; what the test appends is sent by its own flush.
    await log.appender.ready()
    await log.appender.flush()
    return log
  }
  const log = await open().catch(async (refusal: unknown) => {
    await cloud[Symbol.asyncDispose]()
    throw refusal
  })
  return {
    ...log,
    cloud,
    puts: () => cloud.asked('/store/').filter(({ path }) => isOfRecords(path)),
    asks: () => cloud.asked('/api/svc/upload-url').filter(({ body }) => isOfRecords(String(body))),
    async [Symbol.asyncDispose]() {
      await log[Symbol.asyncDispose]()
      await cloud[Symbol.asyncDispose]()
    },
  }
}

export const today = new Date().toISOString().slice(0, 10)
export const daily = `audit-${today}.ndjson`

/** Every field of the contract's table but `sig`, and no other. */
export function envelope(changes: Partial<AuditEnvelope> = {}): AuditEnvelope {
  return {
    ts: `${today}T10:00:00.000Z`,
    trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
    span_id: '00f067aa0ba902b7',
    tenant: 'acme',
    environment: 'prod',
    client_name: 'edge',
    client_version: '1.0.0',
    server: 'files@1.0.0',
    tool: 'read@1.0.0',
    status: 'ok',
    latency_ms: 1.5,
    retries: 0,
    input_sha256: 'a'.repeat(64),
    output_sha256: null,
    policy: { decision: 'allow', retention: 'standard' },
    idempotency_key: null,
    nodeId: null,
    agentRef: null,
    agentVariables: null,
    ...changes,
  }
}

export const payload = {
  ts: `${today}T10:00:00.000Z`,
  trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
  span_id: '00f067aa0ba902b7',
  runId: 'run-1',
  tenant: 'acme',
  direction: 'input',
  payload_preview: '{}',
  payload_truncated: false,
  payload_bytes: 2,
}

/** Whether the record's signature is the key's over the canonical record without it, checked by Node's own Ed25519. */
export function isSigned(
  { sig, ...unsigned }: SignedEnvelope | Record<string, unknown>,
  key: Uint8Array,
): boolean {
  const match = /^ed25519:([A-Za-z0-9+/]{86}==)$/.exec(String(sig))
  if (match === null) return false
  const x = Buffer.from(key).toString('base64url')
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  return verifySignature(
    null,
    Buffer.from(canonicalize(unsigned)),
    publicKey,
    Buffer.from(match[1]!, 'base64'),
  )
}
