// Which writer takes the records: one that is bound, one passed from code, or a log of our own; and with it the
// signer, and the journal in which calls are noted before they are sent.
import { resolve as resolvePath } from 'node:path'
import {
  type Appender,
  type Lease,
  type PluginContext,
  resolve,
  resolveOptional,
  type Signer,
  tokens,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { AuditConfig } from './config.js'
import { Intents } from './intent/tracker.js'
import { nodeFileSystem } from './log/files/file-system.js'
import { LocalDevSigner } from './log/keys/local-dev-signer.js'
import type { PresignConfig } from './log/upload/presign.js'
import { SvcAppender } from './log/writer/appender.js'

/** What an open log consists of. */
export interface OpenLog {
  readonly appender: Appender
  /** Absent where the writer is the user's and has no directory. */
  readonly intents?: Intents
  /** Absent where the writer is the user's: it signs with a key of its own. */
  readonly signer?: Signer
}

/** The log of one policy: what the user bound wins, then `audit.append` from code, then a log of our own. */
export class LogSource {
  readonly #config: AuditConfig
  readonly #context: PluginContext
  readonly #writer: Appender | undefined
  readonly #signer: Signer | undefined
  #lease: Lease<OpenLog> | undefined

  /** To be made before the plugin binds its defaults. */
  constructor(config: AuditConfig, context: PluginContext) {
    const { append } = config
    this.#config = config
    this.#context = context
    this.#writer =
      resolveOptional(context.container, tokens.SvcAppender) ??
      (append === undefined ? undefined : { append })
    this.#signer = resolveOptional(context.container, tokens.Signer)
  }

  /** Whether calls can have intents: a writer of the user's has a place for them only where `audit.dir` names one. */
  get keepsIntents(): boolean {
    return this.#writer === undefined || this.#config.dir !== undefined
  }

  /** Undefined while the log is not open. */
  get current(): OpenLog | undefined {
    return this.#lease?.value
  }

  open(): OpenLog {
    this.#lease ??=
      this.#writer === undefined
        ? ownLog(this.#config, this.#context, this.#signer ?? signerOf(this.#config, this.#context))
        : foreignLog(this.#writer, this.#config, this.#context)
    return this.#lease.value
  }

  async close(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }
}

/** A writer that is not ours to close. Its calls have intents where `audit.dir` says where. */
function foreignLog(appender: Appender, config: AuditConfig, context: PluginContext): Lease<OpenLog> {
  const { dir } = config
  if (dir === undefined) return { value: { appender }, release: () => Promise.resolve() }
  const at = resolvePath(context.baseDir, dir)
  return context.resources.acquire(JSON.stringify(['audit.intents', at]), () => {
    const intents = intentsBeside(at, appender, null, context)
    return { value: { appender, intents }, close: () => intents.close() }
  })
}

function ownLog(config: AuditConfig, context: PluginContext, signer: Signer): Lease<OpenLog> {
  const dir = resolvePath(context.baseDir, config.dir ?? `${context.stateDir}/audit`)
  const { keyId } = signer
  const { retentionDays, checkpoint_interval_ms: intervalMs } = config
  const minFreeBytes = config.min_free_mb * 1_048_576
  const presign = presignOf(config)
  const signingThread = config.signer?.thread ?? 'auto'
  const logger = resolve(context.container, tokens.Logger)
  const clock = resolve(context.container, tokens.Clock)
  const meter = resolve(context.container, tokens.Meter)
  return context.resources.acquire(
    // The key of the upload is a secret and stays out of names.
    JSON.stringify([
      'audit.log',
      dir,
      keyId,
      retentionDays,
      intervalMs,
      minFreeBytes,
      signingThread,
      sha256Hex(JSON.stringify(presign ?? null)),
    ]),
    () => {
      const checkpoint = { intervalMs }
      const settings = {
        dir,
        retentionDays,
        minFreeBytes,
        checkpoint,
        signingThread,
        ...(presign === undefined ? {} : { presign }),
      }
      const appender = new SvcAppender({ config: settings, signer, logger, clock, meter })
      const intents = intentsBeside(dir, appender, keyId, context)
      const close = async () => {
        await intents.pause()
        try {
          await appender.close()
        } finally {
          await intents.close()
        }
      }
      return { value: { appender, intents, signer }, close }
    },
  )
}

function intentsBeside(
  dir: string,
  appender: Appender,
  keyId: string | null,
  context: PluginContext,
): Intents {
  return new Intents({
    dir,
    port: nodeFileSystem,
    logger: resolve(context.container, tokens.Logger),
    keyId,
    append: (record) => appender.append(record),
  })
}

function presignOf({ presign }: AuditConfig): PresignConfig | undefined {
  if (presign === undefined) return undefined
  const { apiBaseUrl, auditKey, timeoutMs, intervalMs, ...metadata } = presign
  const given = Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined))
  return { apiBaseUrl, auditKey, timeoutMs, intervalMs, ...given }
}

function signerOf(config: AuditConfig, { baseDir }: PluginContext): Signer {
  const keyRef = config.signer?.keyRef
  if (keyRef === undefined)
    throw new Error(
      'audit.signer.keyRef is missing; name a key file (`npx svc-sdk keys generate --out FILE` makes one)',
    )
  return LocalDevSigner.fromKeyRef(absolute(keyRef, baseDir))
}

/** `file://./key` and `file://key` start from the policy's directory. */
function absolute(keyRef: string, baseDir: string): string {
  return `file://${resolvePath(baseDir, keyRef.slice('file://'.length))}`
}
