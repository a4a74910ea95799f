// Chooses the writer of the records: a bound one, one passed from code, or the built-in log; with it the signer
// and the intent journal.
import { resolve as resolvePath } from 'node:path'
import {
  type Appender,
  hostOf,
  type Lease,
  type Notices,
  type PluginContext,
  resolve,
  resolveOptional,
  type Signer,
  tokens,
} from '@svc/core'
import { messageOf, sha256Hex } from '@svc/core/json'
import { literalSecret } from '@svc/core/policy'
import type { AuditConfig } from './config.js'
import { IntentTracker } from './intent/tracker.js'
import { nodeFileSystem } from './log/files/file-system.js'
import { keepPolicy } from './log/files/kept-policies.js'
import { AuditError } from './log/format/errors.js'
import { openSigner } from './log/keys/open-signer.js'
import { withTimeLimit } from './log/keys/signatures.js'
import { uploadWarning } from './log/upload/upload-status.js'
import { SvcAppender } from './log/writer/appender.js'
import { DEFAULT_LIMITS } from './log/writer/config.js'
import type { AppenderStatus } from './log/writer/status.js'
import { eventRecordOf, recordContextOf } from './record.js'
import { missingSigner } from './signer-key.js'

// Sends notices when the log becomes unwritable, falls behind with its upload, or turns out to be changed; and when the
// first two end.

const CHECK_INTERVAL_MS = 1_000

type WatchedStatus = Pick<AppenderStatus, 'writable' | 'error' | 'upload'>

export class LogNotices {
  readonly #notices: Notices | undefined
  #isWritable = true
  #isBehind = false
  /** Messages of errors that were sent. */
  readonly #errors = new Set<string>()
  #timer: NodeJS.Timeout | undefined

  constructor(notices: Notices | undefined) {
    this.#notices = notices
  }

  /** Checks the status every second, until `stop`. */
  start(status: () => WatchedStatus): void {
    this.#timer ??= setInterval(() => this.check(status()), CHECK_INTERVAL_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  check({ writable, error, upload }: WatchedStatus): void {
    if (writable !== this.#isWritable) {
      this.#isWritable = writable
      const message = writable
        ? 'the log can be written again'
        : `the log cannot be written: ${messageOf(error)}`
      this.#notices?.send({ type: 'audit.unwritable', data: { writable, message } })
    }
    const warning = upload && uploadWarning(upload)
    const behind = warning !== undefined
    if (behind !== this.#isBehind) {
      this.#isBehind = behind
      const message = warning ?? 'the upload of the log has caught up'
      this.#notices?.send({ type: 'audit.upload_behind', data: { behind, message } })
    }
  }

  /** Reports an error of the log, at its opening or in the background, if it shows that the log was changed. */
  error(error: unknown): void {
    if (!(error instanceof AuditError) || error.code !== 'log_unlinked' || this.#errors.has(error.message))
      return
    this.#errors.add(error.message)
    this.#notices?.send({ type: 'audit.tampered', data: { message: error.message } })
  }
}

/** The parts of an open log. */
export interface OpenLog {
  readonly appender: Appender
  /** Absent if the writer is bound from code and `audit.dir` is not set. */
  readonly intents?: IntentTracker
  /** Absent if the writer is bound from code: it signs with a key of its own. */
  readonly signer?: Signer
  /** Set for the built-in log only. */
  readonly notices?: LogNotices
}

/** The log of one policy: a bound writer, else `audit.append` from code, else the built-in log. */
export class LogSource {
  readonly #config: AuditConfig
  readonly #context: PluginContext
  readonly #writer: Appender | undefined
  readonly #signer: Signer | undefined
  #lease: Lease<OpenLog> | undefined

  /** Construct it before the plugin binds its defaults. */
  constructor(config: AuditConfig, context: PluginContext) {
    const { append } = config
    this.#config = config
    this.#context = context
    this.#writer =
      resolveOptional(context.container, tokens.SvcAppender) ??
      (append === undefined ? undefined : { append })
    this.#signer = resolveOptional(context.container, tokens.Signer)
  }

  /** Whether calls can have intents: those of a writer from code need a place, and a signer. */
  get supportsIntents(): boolean {
    return this.#writer === undefined || (this.#config.dir !== undefined && this.#signer !== undefined)
  }

  /** Whether code writes the records, in place of the built-in log. */
  get isExternal(): boolean {
    return this.#writer !== undefined
  }

  /** Undefined while the log is not open. */
  get current(): OpenLog | undefined {
    return this.#lease?.value
  }

  /**
   * Keeps the texts of the policy beside the log. Throws if they cannot be written; a policy with a secret in its text is
   * not kept, and the operator is warned.
   */
  keepPolicy(): void {
    const { dir } = this.#config
    if (this.isExternal && dir === undefined) return
    const { policyTexts = [] } = this.#context
    for (const text of policyTexts) {
      const secret = literalSecret(text)
      if (secret === undefined) keepPolicy(nodeFileSystem, logDirectory(this.#config, this.#context), text)
      else
        this.#context.warn(
          `the policy is not kept beside the log, as it contains a secret: ${secret}; write a reference, such as env:NAME`,
        )
    }
  }

  async open(): Promise<OpenLog> {
    this.#lease ??=
      this.#writer === undefined
        ? builtInLog(this.#config, this.#context, this.#signer)
        : externalLog(this.#writer, this.#config, this.#context, this.#signer)
    return this.#lease.value
  }

  async close(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }
}

/** A writer that its owner closes. Its calls have intents if `audit.dir` is set and a signer is bound for them. */
function externalLog(
  appender: Appender,
  config: AuditConfig,
  context: PluginContext,
  signer: Signer | undefined,
): Lease<OpenLog> {
  const { dir, intent } = config
  if (dir !== undefined && signer === undefined && intent !== 'off')
    context.warn(
      'calls have no intents: the writer of the log is bound from code, and no Signer that could sign them is',
    )
  if (dir === undefined || signer === undefined)
    return { value: { appender }, release: () => Promise.resolve() }
  const at = resolvePath(context.baseDir, dir)
  return context.resources.acquire(JSON.stringify(['audit.intents', at, signer.keyId]), () => {
    const log = { signer, trustedKeys: () => Promise.resolve([signer]) }
    const intents = createTracker(at, appender, { ...log, keyId: null }, config, context)
    return { value: { appender, intents }, close: () => intents.close() }
  })
}

function builtInLog(config: AuditConfig, context: PluginContext, bound: Signer | undefined): Lease<OpenLog> {
  const { keyRef, retiringKeyRef } = config.signer ?? {}
  if (bound === undefined && keyRef === undefined) throw new Error(`audit.signer.keyRef ${missingSigner}`)
  const signer = bound ?? openSigner(keyRef ?? '', context.baseDir)
  const retiringSigner =
    retiringKeyRef === undefined ? undefined : openSigner(retiringKeyRef, context.baseDir)
  return acquireLog(config, context, { signer, retiringSigner })
}

interface LogSigners {
  readonly signer: Signer
  readonly retiringSigner: Signer | undefined
}

function acquireLog(config: AuditConfig, context: PluginContext, signers: LogSigners): Lease<OpenLog> {
  const { signer, retiringSigner } = signers
  const { keyId } = signer
  const dir = logDirectory(config, context)
  const { retentionDays, checkpointIntervalMs: intervalMs, hold, threads, presign, log } = config
  const checkpoints = config.checkpoints ? { intervalMs } : (false as const)
  const minFreeBytes = config.minFreeMb * 1_048_576
  const { workers: processes } = hostOf(context.container)
  const settings = {
    dir,
    retentionDays,
    minFreeBytes,
    checkpoints,
    threads,
    processes,
    hold,
    ...log,
    presign,
  }
  const logger = resolve(context.container, tokens.Logger)
  const clock = resolve(context.container, tokens.Clock)
  const meter = resolve(context.container, tokens.Meter)
  // The upload key is secret and must not appear in resource names.
  const identity = { ...settings, presign: sha256Hex(JSON.stringify(presign ?? null)) }
  return context.resources.acquire(
    JSON.stringify(['audit.log', identity, keyId, retiringSigner?.keyId ?? null]),
    () => {
      const notices = new LogNotices(resolveOptional(context.container, tokens.Notices))
      const onAsyncError = (err: Error) => {
        logger.error({ err }, 'the audit log has an error in the background')
        notices.error(err)
      }
      const ports = { logger, clock, meter, onAsyncError }
      const named = { ...settings, writer: config.gatewayName }
      const appender = new SvcAppender({ config: named, signer, retiringSigner, ...ports })
      notices.start(() => appender.status())
      const log = { signer, keyId, trustedKeys: () => appender.trustedKeys() }
      const intents = createTracker(dir, appender, log, config, context)
      const close = async () => {
        notices.stop()
        await intents.pause()
        try {
          await appender.close()
        } finally {
          await intents.close()
        }
      }
      return { value: { appender, intents, signer, notices }, close }
    },
  )
}

/** The directory of the built-in log. */
export function logDirectory(
  { dir }: Pick<AuditConfig, 'dir'>,
  { baseDir, stateDir }: Pick<PluginContext, 'baseDir' | 'stateDir'>,
): string {
  return resolvePath(baseDir, dir ?? `${stateDir}/audit`)
}

interface SignedLog {
  readonly signer: Signer
  /** Id of the key of the records; null if the writer signs with a key of its own. */
  readonly keyId: string | null
  trustedKeys(): Promise<readonly Pick<Signer, 'keyId' | 'verify'>[]>
}

function createTracker(
  dir: string,
  appender: Appender,
  { signer, keyId, trustedKeys }: SignedLog,
  config: AuditConfig,
  context: PluginContext,
): IntentTracker {
  const clock = resolve(context.container, tokens.Clock)
  const ids = resolve(context.container, tokens.Ids)
  const limited = withTimeLimit(signer, DEFAULT_LIMITS.signatureMs)
  return new IntentTracker({
    dir,
    port: nodeFileSystem,
    clock,
    logger: resolve(context.container, tokens.Logger),
    log: { signer: limited, logId: () => appender.logId ?? null, trustedKeys },
    keyId,
    append: (record) => appender.append(record),
    refusedRecord: (count, detail) =>
      eventRecordOf(
        { ...recordContextOf(config, context), keyId },
        {
          name: 'intents/refused',
          traceId: ids.traceId(),
          decision: 'deny',
          findings: [{ reason: 'intents_refused', stage: 'audit', effect: 'deny', detail }],
          facts: { files: count },
        },
        { ts: new Date(clock.now()).toISOString(), spanId: ids.spanId() },
      ),
  })
}
