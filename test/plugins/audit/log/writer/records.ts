// Records, readers and a failing disk for the appender's tests.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize, fromBase64 } from '@svc/core/json'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import {
  type AppenderOptions,
  type AuditEnvelope,
  type FileSystem,
  LocalDevSigner,
  SvcAppender,
} from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { plainRecord } from '../../../../support/audit-log.js'

export const DAY = '2026-11-21'
export const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))

let serial = 0

export function envelope(changes: Partial<AuditEnvelope> = {}): AuditEnvelope {
  return { ...plainRecord(DAY, ++serial), ...changes }
}

/** A clock that stands still on the tests' day until a test moves it. */
export function fixedClock(time = `${DAY}T12:00:00Z`) {
  const clock = { ms: Date.parse(time), now: () => clock.ms, monotonic: () => clock.ms }
  return clock
}

interface LogEntry {
  readonly level: string
  readonly fields: Record<string, unknown>
  readonly message: string
}

export function memoryLogger() {
  const entries: LogEntry[] = []
  const at = (level: string) => (fields: object, message: string) => {
    entries.push({ level, fields: fields as Record<string, unknown>, message })
  }
  return { entries, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

export function appenderIn(
  dir: string,
  options: Partial<Omit<AppenderOptions, 'config'>> & {
    config?: Partial<AppenderOptions['config']>
  } = {},
): SvcAppender & AsyncDisposable {
  const { config, ...rest } = options
  const appender = new SvcAppender({
    signer,
    clock: fixedClock(),
    logger: memoryLogger(),
    ...rest,
    config: {
      dir,
      retentionDays: 30,
      ...(rest.signer !== undefined && rest.signer.publicKey === undefined ? { checkpoints: false } : {}),
      ...config,
    },
  })
  return Object.assign(appender, { [Symbol.asyncDispose]: () => appender.close() })
}

export function linesOf(dir: string, file: string): string[] {
  const path = join(dir, file)
  if (!existsSync(path)) return []
  const text = readFileSync(path, 'utf8')
  if (text === '') return []
  expect(text.endsWith('\n'), `${file} ends in a newline`).to.equal(true)
  return text.slice(0, -1).split('\n')
}

/** The records of a file without their place in the log, each checked to be canonical and correctly signed. */
export function recordsOf(dir: string, file = `audit-${DAY}.ndjson`): AuditEnvelope[] {
  return linesOf(dir, file).map((line) => {
    const { sig, ...record } = JSON.parse(line)
    expect(canonicalize({ ...record, sig })).to.equal(line)
    const signature = fromBase64(sig.slice('ed25519:'.length))
    expect(signer.verify(Buffer.from(canonicalize(record)), signature), 'signature').to.equal(true)
    const { log_id, seq, lost, ...envelope } = record
    return envelope
  })
}

export function spansOf(dir: string, file?: string): string[] {
  return recordsOf(dir, file).map((record) => record.span_id)
}

export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'resolved',
    (error: { code: string }) => error.code,
  )
}

export function ioError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: made by a test`), { code })
}

/** The real file system with some calls replaced. */
export function diskWith(changes: Partial<FileSystem>): FileSystem {
  return { ...nodeFileSystem, ...changes }
}
