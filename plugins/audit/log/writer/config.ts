// What the appender is built from, checked at construction so that a mistake shows before a record is due.

import { availableParallelism } from 'node:os'
import type { Clock, Logger, Meter, Signer } from '@svc/core'
import type { FileSystem } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import type { StartWorker } from '../signing/signing-thread.js'
import { checkPresign, type PresignConfig } from '../upload/presign.js'

export interface AppenderConfig {
  /** Root directory of all audit files; made, mode 0700, where it is missing. */
  dir: string
  /** Files whose day is more days back than this are removed; 0 keeps the current day only. */
  retentionDays: number
  /** The disk counts as low below this many free bytes; default 512 MiB, 0: never. */
  minFreeBytes?: number
  presign?: PresignConfig
  /** How often what is new is sealed by a signed checkpoint, ms; default 10 000. False: never. */
  checkpoint?: { readonly intervalMs?: number } | false
  /** Whether a thread signs beside the event loop; default `auto`: where there is a second core for it. */
  signingThread?: 'auto' | 'on' | 'off'
}

export interface AppenderLimits {
  /** Bytes written and synced together at most, unless one record is larger. Default 1 MiB. */
  batchBytes: number
  /** Bytes of accepted records that may wait for the disk; more are refused. Default 64 MiB. */
  maxPendingBytes: number
  /** Per-agent files kept open. Default 128. */
  agentHandles: number
  /** Daily files kept open, for records of earlier days. Default 4. */
  logHandles: number
  /** How long another process may hold the lock before the log counts as not writable, ms. Default 5000. */
  lockWaitMs: number
  /** New bytes that start an upload before its interval is over. Default 1 MiB. */
  uploadTriggerBytes: number
  /** Bytes of one uploaded object at most, unless one record is larger. Default 64 MiB. */
  uploadRangeBytes: number
  /** How long the upload of an object may stand still before it is given up, ms. Default 30 000. */
  uploadIdleMs: number
}

export interface AppenderOptions {
  config: AppenderConfig
  signer: Signer
  clock?: Clock
  fileSystem?: FileSystem
  logger?: Logger
  meter?: Meter
  /** Chance, for the jitter between attempts to upload. Default `Math.random`. */
  random?: () => number
  /** Told of faults that no `append` waits for: derived files, retention, upload. Default: the logger. */
  onAsyncError?: (error: Error) => void
  limits?: Partial<AppenderLimits>
  /** Starts the signing thread; for tests of what a thread may do. */
  startSigningWorker?: StartWorker
}

export const DEFAULT_CHECKPOINT_INTERVAL_MS = 10_000
export const DEFAULT_MIN_FREE_BYTES = 512 * 1_048_576
// setTimeout takes no more.
const LONGEST_INTERVAL_MS = 2 ** 31 - 1

export const DEFAULT_LIMITS: AppenderLimits = {
  batchBytes: 1_048_576,
  maxPendingBytes: 67_108_864,
  agentHandles: 128,
  logHandles: 4,
  lockWaitMs: 5_000,
  uploadTriggerBytes: 1_048_576,
  uploadRangeBytes: 67_108_864,
  uploadIdleMs: 30_000,
}

export const noMeter: Meter = { count: () => undefined }

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

/** Warnings of a library used without a logger still reach someone. */
export const warningLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (fields, message) =>
    process.emitWarning(message, { type: 'SvcAuditWarning', detail: describe(fields) }),
  error: (fields, message) =>
    process.emitWarning(message, { type: 'SvcAuditWarning', detail: describe(fields) }),
}

function describe(fields: object): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
}

/** @throws {AuditError} `bad_config`. */
export function checkConfig(config: AppenderConfig, limits: AppenderLimits): void {
  if (typeof config?.dir !== 'string' || config.dir === '' || config.dir.includes('\0')) {
    throw bad('dir', 'must be the path of a directory')
  }
  if (!Number.isFinite(config.retentionDays) || config.retentionDays < 0) {
    throw bad('retentionDays', 'must be a number of days, 0 or more')
  }
  const { minFreeBytes = DEFAULT_MIN_FREE_BYTES } = config
  if (!Number.isFinite(minFreeBytes) || minFreeBytes < 0) {
    throw bad('minFreeBytes', 'must be a number of bytes, 0 or more')
  }
  if (config.presign !== undefined) checkPresign(config.presign)
  if (config.checkpoint !== undefined && config.checkpoint !== false) {
    const { intervalMs = DEFAULT_CHECKPOINT_INTERVAL_MS } = config.checkpoint
    if (!Number.isFinite(intervalMs) || intervalMs < 1 || intervalMs > LONGEST_INTERVAL_MS) {
      throw bad('checkpoint.intervalMs', `must be from 1 to ${LONGEST_INTERVAL_MS} ms`)
    }
  }
  for (const [name, value] of Object.entries(limits)) {
    if (!Number.isFinite(value) || value < 1) throw bad(`limits.${name}`, 'must be a positive number')
  }
}

/** Where there is one core, a thread could only take turns with the event loop. */
export function usesThread({ signingThread = 'auto' }: AppenderConfig): boolean {
  return signingThread === 'on' || (signingThread === 'auto' && availableParallelism() > 1)
}

function bad(path: string, what: string): AuditError {
  return new AuditError('bad_config', `audit configuration: ${path} ${what}`)
}
