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

export interface OpenLog {
  readonly log: Lease<{
    readonly appender: Appender
    /** Absent where the writer is the user's and has no directory. */
    readonly intents?: Intents
  }>
  /** Null where the writer signs with a key of its own. */
  readonly keyId: string | null
}

/** Whether calls can have intents: a writer of the user's has a place for them only where `audit.dir` names one. */
export function keepsIntents({ append, dir }: AuditConfig, { container }: PluginContext): boolean {
  const isForeign = append !== undefined || resolveOptional(container, tokens.SvcAppender) !== undefined
  return !isForeign || dir !== undefined
}

/** A bound writer wins, then `audit.append` from code, then a log of our own. */
export function openLog(config: AuditConfig, context: PluginContext): OpenLog {
  const bound = resolveOptional(context.container, tokens.SvcAppender)
  if (bound !== undefined) return foreignLog(bound, config, context)
  const { append } = config
  if (append !== undefined) return foreignLog({ append }, config, context)
  return ownLog(config, context)
}

/** A writer that is not ours to close. Its calls have intents where `audit.dir` says where. */
function foreignLog(appender: Appender, config: AuditConfig, context: PluginContext): OpenLog {
  const { dir } = config
  if (dir === undefined) {
    return { log: { value: { appender }, release: () => Promise.resolve() }, keyId: null }
  }
  const at = resolvePath(context.baseDir, dir)
  const log = context.resources.acquire(JSON.stringify(['audit.intents', at]), () => {
    const intents = intentsBeside(at, appender, null, context)
    return { value: { appender, intents }, close: () => intents.close() }
  })
  return { log, keyId: null }
}

function ownLog(config: AuditConfig, context: PluginContext): OpenLog {
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
      return { value: { appender, intents }, close }
    },
  )
  return { log, keyId }
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

function signerOf(config: AuditConfig, context: PluginContext): Signer {
  const bound = resolveOptional(context.container, tokens.Signer)
  if (bound !== undefined) return bound
  if (config.signer === undefined) {
    throw new Error(
      'audit.signer.keyRef is missing; name a key file (`npx svc-sdk keys generate --out FILE` makes one)',
    )
  }
  return LocalDevSigner.fromKeyRef(absolute(config.signer.keyRef, context.baseDir))
}

/** `file://./key` and `file://key` start from the policy's directory. */
function absolute(keyRef: string, baseDir: string): string {
  return `file://${resolvePath(baseDir, keyRef.slice('file://'.length))}`
}
