// Chooses the writer of the records: a bound one, one passed from code, or the built-in log; with it the signer
// and the intent journal.
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
import { IntentTracker } from './intent/tracker.js'
import { nodeFileSystem } from './log/files/file-system.js'
import { LocalDevSigner } from './log/keys/local-dev-signer.js'
import type { PresignConfig } from './log/upload/presign.js'
import { SvcAppender } from './log/writer/appender.js'

export interface OpenLog {
  readonly log: Lease<{
    readonly appender: Appender
    /** Absent where the writer is bound from code and `audit.dir` is not set. */
    readonly intents?: IntentTracker
  }>
  /** Null where the writer signs with a key of its own. */
  readonly keyId: string | null
}

/** Whether calls can have intents: a writer from code has a place for them only where `audit.dir` is set. */
export function supportsIntents({ append, dir }: AuditConfig, { container }: PluginContext): boolean {
  const isExternal = append !== undefined || resolveOptional(container, tokens.SvcAppender) !== undefined
  return !isExternal || dir !== undefined
}

/** A bound writer wins, then `audit.append` from code, then the built-in log. */
export function openLog(config: AuditConfig, context: PluginContext): OpenLog {
  const bound = resolveOptional(context.container, tokens.SvcAppender)
  if (bound !== undefined) return externalLog(bound, config, context)
  const { append } = config
  if (append !== undefined) return externalLog({ append }, config, context)
  return builtInLog(config, context)
}

/** A writer that its owner closes. Its calls have intents where `audit.dir` is set. */
function externalLog(appender: Appender, config: AuditConfig, context: PluginContext): OpenLog {
  const { dir } = config
  if (dir === undefined) {
    return { log: { value: { appender }, release: () => Promise.resolve() }, keyId: null }
  }
  const at = resolvePath(context.baseDir, dir)
  const log = context.resources.acquire(JSON.stringify(['audit.intents', at]), () => {
    const intents = createTracker(at, appender, null, context)
    return { value: { appender, intents }, close: () => intents.close() }
  })
  return { log, keyId: null }
}

function builtInLog(config: AuditConfig, context: PluginContext): OpenLog {
  const dir = resolvePath(context.baseDir, config.dir ?? `${context.stateDir}/audit`)
  const signer = signerOf(config, context)
  const { keyId } = signer
  const { retentionDays, checkpoint_interval_ms: intervalMs } = config
  const minFreeBytes = config.min_free_mb * 1_048_576
  const presign = presignOf(config)
  const signingThread = config.signer?.thread ?? 'auto'
  const logger = resolve(context.container, tokens.Logger)
  const clock = resolve(context.container, tokens.Clock)
  const meter = resolve(context.container, tokens.Meter)
  const log = context.resources.acquire(
    // The upload key is secret and must not appear in resource names.
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
      const intents = createTracker(dir, appender, keyId, context)
      const close = async () => {
        await intents.pause()
        try {
          await appender.close()
        } finally {
          await intents.close()
        }
      }
      return { value: { appender, intents }, close }
    },
  )
  return { log, keyId }
}

function createTracker(
  dir: string,
  appender: Appender,
  keyId: string | null,
  context: PluginContext,
): IntentTracker {
  return new IntentTracker({
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

function signerOf(config: AuditConfig, context: PluginContext): Signer {
  const bound = resolveOptional(context.container, tokens.Signer)
  if (bound !== undefined) return bound
  if (config.signer === undefined) {
    throw new Error(
      'audit.signer.keyRef is missing; name a key file (`svc keys generate --out FILE` makes one)',
    )
  }
  return LocalDevSigner.fromKeyRef(absoluteKeyRef(config.signer.keyRef, context.baseDir))
}

/** `file://./key` and `file://key` are relative to the policy's directory. */
function absoluteKeyRef(keyRef: string, baseDir: string): string {
  return `file://${resolvePath(baseDir, keyRef.slice('file://'.length))}`
}
