// The export of a log in the test's own process, to a receiver that does what the test says.
import { appendFileSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ExportError } from '@svc/plugin-audit/internal/log/export/error'
import type { ExportGap, ExportHost, ExportProgress } from '@svc/plugin-audit/internal/log/export/host'
import { LogExport } from '@svc/plugin-audit/internal/log/export/log-export'
import type { ExportedRecord, Receiver } from '@svc/plugin-audit/internal/log/export/receiver'
import { nodeFileSystem, sizeOf } from '@svc/plugin-audit/internal/log/files/file-system'
import { hasSigned, signJson } from '@svc/plugin-audit/internal/log/keys/signed-json'
import { UploadThrottle } from '@svc/plugin-audit/internal/log/upload/throttle'
import { envelope, signer } from '../writer/records.js'

/** Takes what it is sent, or as much as `takes` says, and then fails. */
class TestReceiver implements Receiver {
  readonly taken: string[] = []
  /** Records that it takes before it fails; undefined: all. */
  takes: number | undefined
  largestBatch = 0

  async send(records: readonly ExportedRecord[]): Promise<void> {
    this.largestBatch = Math.max(this.largestBatch, records.length)
    const spans = records.map(({ record }) => record.span_id)
    this.taken.push(...spans.slice(0, this.takes))
    if (this.takes !== undefined) throw new ExportError('export_failed', 'the receiver fails')
  }
}

export class ExportRig {
  readonly receiver = new TestReceiver()
  readonly gaps: ExportGap[] = []
  readonly warnings: string[] = []
  readonly progress: ExportProgress[] = []
  /** Whether another process exports the log. */
  isStandby = false
  readonly #dir: string
  #export: LogExport

  constructor(dir: string) {
    this.#dir = dir
    this.#export = this.#open()
  }

  /** Appends a record of that day; its span id is returned. */
  append(day: string, line?: string): string {
    const record = envelope({ ts: `${day}T10:00:00.000Z` })
    appendFileSync(this.path(day), `${line ?? JSON.stringify({ ...record, sig: 'ed25519:AA==' })}\n`)
    return record.span_id
  }

  remove(day: string): void {
    rmSync(this.path(day), { force: true })
  }

  path(day: string): string {
    return join(this.#dir, `audit-${day}.ndjson`)
  }

  round() {
    return this.#export.round(Date.parse('2026-11-21T12:00:00Z'))
  }

  /** Another process goes on: it knows what is in the directory alone. */
  restart(): void {
    this.#export = this.#open()
  }

  positions(): Record<string, { offset: number; pending?: number }> {
    return JSON.parse(readFileSync(join(this.#dir, '.svc-export-siem.json'), 'utf8')).files
  }

  #open(): LogExport {
    const host: ExportHost = {
      sizes: async (names) =>
        this.isStandby ? undefined : names.map((name) => sizeOf(nodeFileSystem, join(this.#dir, name))),
      secrets: async () => ({}),
      progress: (_, progress) => void this.progress.push(progress),
      gap: async (gap) => void this.gaps.push(gap),
      warned: (message) => void this.warnings.push(message),
      sign: (state) => signJson({ ...state, key_id: signer.keyId }, signer),
      isSigned: async (state) => hasSigned(state, signer),
    }
    const config = {
      name: 'siem',
      type: 'file',
      format: 'record',
      path: '/nowhere',
      maxBytes: 1,
      files: 1,
      timeoutMs: 1_000,
      maxDelayMs: 1_000,
    } as const
    const throttle = new UploadThrottle(new Int32Array(new SharedArrayBuffer(4)))
    const { signal } = new AbortController()
    return new LogExport({ dir: this.#dir, config, host, throttle, signal, receiver: this.receiver })
  }
}
