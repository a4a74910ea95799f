// The appender's configuration, checked in the constructor so that a mistake shows before the first record.

import { availableParallelism } from 'node:os'
import type { Clock, Logger, Meter, Signer } from '@svc/core'
import { type WitnessConfig, witnessError } from '../cosigning/config.js'
import type { FileSystem } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import { isDay, isOrigin } from '../format/journal-line.js'
import type { LegalHold } from '../format/paths.js'
import { keyIdOf } from '../keys/public-key.js'
import type { StartWorker } from '../signing/signing-thread.js'
import { checkPresign, type PresignConfig } from '../upload/presign.js'
import type { UploadLimits } from '../upload/uploader.js'

export interface AppenderConfig {
  /** Root directory of all audit files; created with mode 0700 if it is missing. */
  dir: string
  /** Files whose day is more days back than this are removed; at least 1. */
  retentionDays: number
  /** The disk counts as low below this many free bytes; default 512 MiB, 0: never. */
  minFreeBytes?: number
  presign?: PresignConfig | undefined
  /**
   * How often new records are sealed by a signed checkpoint, ms; default 10 000. False: never, and missing records are
   * not detected, as with a signer without a public key.
   */
  checkpoints?: { readonly intervalMs?: number } | false
  /** Name of the log in its checkpoints, for a new log; default `<writer>.svc-audit/<16 digits of the log id>`. */
  origin?: string | undefined
  /** Who writes the log, for the default of `origin`: a gateway gives its name; default `log`. */
  writer?: string | undefined
  /** Witnesses that cosign checkpoints in the background. */
  witnesses?: readonly WitnessConfig[] | undefined
  /** Number of witnesses that a checkpoint needs; default all. Fewer cause a warning. */
  quorum?: number | undefined
  /** Days that retention does not remove. */
  hold?: readonly LegalHold[]
  /** Whether a thread signs in parallel to the event loop; default `auto`: on if there is a core more than processes. */
  threads?: 'auto' | 'on' | 'off'
  /** Processes of this host that append at the same time, for `threads`; default 1. */
  processes?: number | undefined
}

export interface AppenderLimits extends UploadLimits {
  /** Maximum bytes written and synced together, unless one record is larger. Default 1 MiB. */
  batchBytes: number
  /** Maximum bytes of accepted records that wait for the disk; further records are refused. Default 64 MiB. */
  maxPendingBytes: number
  /** How long `signAsync` may take; later records and seals wait for it, ms. Default 30 000. */
  signatureMs: number
  /** Per-agent files kept open. Default 128. */
  agentHandles: number
  /** Daily files kept open, for records of earlier days. Default 4. */
  logHandles: number
  /** How long another process may hold the lock before the log counts as not writable, ms. Default 5000. */
  lockWaitMs: number
  /** How long `close` waits until everything is sealed, ms. Default 10 000. */
  sealOnCloseMs: number
}

export interface AppenderOptions {
  config: AppenderConfig
  signer: Signer
  /**
   * The former signer, while its key is being retired: it introduces the key of `signer` to the log, and signs
   * checkpoints too while its key is trusted.
   */
  retiringSigner?: Signer | undefined
  clock?: Clock
  fileSystem?: FileSystem
  logger?: Logger
  meter?: Meter
  /** Random numbers for the jitter between attempts to upload and to get cosignatures. Default `Math.random`. */
  random?: () => number
  /** Called with errors outside of `append`: agent logs, retention, sealing, upload. Default: the logger. */
  onAsyncError?: (error: Error) => void
  limits?: Partial<AppenderLimits>
  /** Starts the signing thread; for tests. */
  startSigningWorker?: StartWorker
}

export const DEFAULT_CHECKPOINT_INTERVAL_MS = 10_000
export const DEFAULT_MIN_FREE_BYTES = 512 * 1_048_576
// The maximum of setTimeout.
const MAX_INTERVAL_MS = 2 ** 31 - 1

export const DEFAULT_LIMITS: AppenderLimits = {
  batchBytes: 1_048_576,
  maxPendingBytes: 67_108_864,
  signatureMs: 30_000,
  agentHandles: 128,
  logHandles: 4,
  lockWaitMs: 5_000,
  sealOnCloseMs: 10_000,
  uploadTriggerBytes: 1_048_576,
  uploadRangeBytes: 67_108_864,
  uploadIdleMs: 30_000,
  uploadRefusalMs: 60_000,
}

export const noMeter: Meter = { count: () => undefined }

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

/** Used without a logger, the library still emits its warnings. */
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
    throw configError('dir', 'must be the path of a directory')
  }
  if (!Number.isFinite(config.retentionDays) || config.retentionDays < 1) {
    throw configError('retentionDays', 'must be a number of days, 1 or more')
  }
  const { minFreeBytes = DEFAULT_MIN_FREE_BYTES } = config
  if (!Number.isFinite(minFreeBytes) || minFreeBytes < 0) {
    throw configError('minFreeBytes', 'must be a number of bytes, 0 or more')
  }
  if (config.presign !== undefined) checkPresign(config.presign)
  if (config.checkpoints !== undefined && config.checkpoints !== false) {
    const { intervalMs = DEFAULT_CHECKPOINT_INTERVAL_MS } = config.checkpoints
    if (!Number.isFinite(intervalMs) || intervalMs < 1 || intervalMs > MAX_INTERVAL_MS) {
      throw configError('checkpoints.intervalMs', `must be from 1 to ${MAX_INTERVAL_MS} ms`)
    }
  }
  if (config.origin !== undefined && !isOrigin(config.origin)) {
    throw configError(
      'origin',
      'must be a name with a dot, without spaces and plus signs, like audit.example.com/prod',
    )
  }
  const { witnesses = [], quorum = witnesses.length } = config
  const witnessProblem = witnesses.length === 0 ? undefined : witnessError(witnesses, quorum)
  if (witnessProblem !== undefined) throw configError('witnesses', `cannot be used: ${witnessProblem}`)
  if (witnesses.length > 0 && config.checkpoints === false) {
    throw configError('witnesses', 'need checkpoints')
  }
  for (const { from = '2000-01-01', to = '2000-01-01' } of config.hold ?? []) {
    if (!isDay(from) || !isDay(to)) throw configError('hold', 'has from and to as YYYY-MM-DD')
  }
  for (const [name, value] of Object.entries(limits)) {
    if (!Number.isFinite(value) || value < 1) throw configError(`limits.${name}`, 'must be a positive number')
  }
}

/**
 * The configuration of a log that the signer can write: without a public key it has no journal.
 *
 * @throws {AuditError} `bad_config`.
 */
export function configFor({ config, signer, retiringSigner }: AppenderOptions): AppenderConfig {
  requireSigner('signer', signer)
  if (retiringSigner !== undefined) requireSigner('retiringSigner', retiringSigner)
  if (signer.publicKey !== undefined || config.checkpoints === false) return config
  const cannot = 'needs a journal, and a log whose signer has no publicKey has none'
  if ((config.witnesses ?? []).length > 0) throw configError('witnesses', cannot)
  if (retiringSigner !== undefined) throw configError('retiringSigner', cannot)
  return { ...config, checkpoints: false }
}

/** Checks at run time what the types say, for callers without types. */
function requireSigner(path: string, signer: Signer | undefined): void {
  if (
    typeof signer?.keyId !== 'string' ||
    typeof signer.sign !== 'function' ||
    typeof signer.verify !== 'function'
  ) {
    throw configError(
      path,
      'has no keyId, sign or verify; pass a Signer, such as LocalDevSigner.fromKeyRef(…)',
    )
  }
  const { keyId, publicKey } = signer
  if (publicKey === undefined || keyIdOf(publicKey) === keyId) return
  throw configError(path, `has the keyId ${keyId}, but the id of its publicKey is ${keyIdOf(publicKey)}`)
}

/** Without a core more than the processes that append, a thread would only compete with their event loops. */
export function usesThreads(
  { threads = 'auto', processes = 1 }: Pick<AppenderConfig, 'threads' | 'processes'>,
  cores = availableParallelism(),
): boolean {
  return threads === 'on' || (threads === 'auto' && cores > processes)
}

function configError(path: string, what: string): AuditError {
  return new AuditError('bad_config', `audit configuration: ${path} ${what}`)
}
