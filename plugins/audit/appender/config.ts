// What the appender is built from, checked at construction so that a mistake shows before a record is due.

import type { Clock, Logger, Signer } from '@svc/core'
import type { PresignConfig } from '../envelope.js'
import { AuditError } from '../errors.js'
import type { FileSystem } from './file-system.js'

export interface AppenderConfig {
  /** Root directory of all audit files; made, mode 0700, where it is missing. */
  dir: string
  /** Files whose day is more days back than this are removed; 0 keeps the current day only. */
  retentionDays: number
  presign?: PresignConfig
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
}

export interface AppenderOptions {
  config: AppenderConfig
  signer: Signer
  clock?: Clock
  fileSystem?: FileSystem
  logger?: Logger
  /** Told of faults that no `append` waits for: derived files, retention. Default: the logger. */
  onAsyncError?: (error: Error) => void
  limits?: Partial<AppenderLimits>
}

export const DEFAULT_LIMITS: AppenderLimits = {
  batchBytes: 1_048_576,
  maxPendingBytes: 67_108_864,
  agentHandles: 128,
  logHandles: 4,
  lockWaitMs: 5_000,
}

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
  // The value is a secret, so the message does not repeat it.
  if (config.presign !== undefined && !/^[A-Za-z][\w-]* +\S/.test(config.presign.auditKey ?? '')) {
    throw bad('presign.auditKey', 'must be the whole Authorization header, such as "Bearer <API_KEY>"')
  }
  for (const [name, value] of Object.entries(limits)) {
    if (!Number.isFinite(value) || value < 1) throw bad(`limits.${name}`, 'must be a positive number')
  }
}

function bad(path: string, what: string): AuditError {
  return new AuditError('bad_config', `audit configuration: ${path} ${what}`)
}
