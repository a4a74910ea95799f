// The audit plugin owns the writer and the signer behind their tokens.
import { resolve as resolvePath } from 'node:path'
import {
  type Appender,
  definePlugin,
  type Lease,
  type PluginContext,
  resolve,
  resolveOptional,
  type Signer,
  sha256Hex,
  tokens,
} from '@svc/core'
import { SvcAppender } from './appender/appender.js'
import { type AuditConfig, auditSchema } from './config.js'
import { LocalDevSigner } from './signer/local-dev-signer.js'
import { AuditStage } from './stage.js'
import type { PresignConfig } from './upload/presign.js'

export const auditPlugin = definePlugin<AuditConfig>({
  name: 'audit',
  version: '0.1.0',
  core: '^1.0.0',
  schema: auditSchema,
  presence: 'required',
  create(config, context) {
    const { container } = context
    return new AuditStage({
      clock: resolve(container, tokens.Clock),
      ids: resolve(container, tokens.Ids),
      logger: resolve(container, tokens.Logger),
      meter: resolve(container, tokens.Meter),
      failureMode: config.failure_mode,
      ...(config.raw_payloads ? { rawPreviewBytes: config.raw_preview_bytes } : {}),
      facts: {
        environment: config.environment,
        clientName: config.clientName ?? config.gatewayName,
        clientVersion: config.clientVersion ?? config.gatewayVersion,
        gateway: `${config.gatewayName}@${config.gatewayVersion}`,
        retention: config.retention,
        tenant: context.tenant,
        policySha256: context.policySha256,
      },
      open: () => openWriter(config, context),
    })
  },
})

/** A bound writer wins, then `audit.append` from code, then a log of our own. */
function openWriter(
  config: AuditConfig,
  context: PluginContext,
): { appender: Lease<Appender>; keyId: string | null } {
  const bound = resolveOptional(context.container, tokens.SvcAppender)
  if (bound !== undefined) return { appender: borrowed(bound), keyId: null }
  const { append } = config
  if (append !== undefined) return { appender: borrowed({ append }), keyId: null }
  return openLog(config, context)
}

/** Not ours to close. */
function borrowed(appender: Appender): Lease<Appender> {
  return { value: appender, release: () => Promise.resolve() }
}

function openLog(config: AuditConfig, context: PluginContext): { appender: Lease<Appender>; keyId: string } {
  const dir = resolvePath(context.baseDir, config.dir ?? `${context.stateDir}/audit`)
  const signer = signerOf(config, context)
  const { retentionDays, checkpoint_interval_ms: intervalMs } = config
  const presign = presignOf(config)
  const logger = resolve(context.container, tokens.Logger)
  const clock = resolve(context.container, tokens.Clock)
  const meter = resolve(context.container, tokens.Meter)
  const appender = context.resources.acquire(
    // The key of the upload is a secret and stays out of names.
    JSON.stringify([
      'audit.log',
      dir,
      signer.keyId,
      retentionDays,
      intervalMs,
      sha256Hex(JSON.stringify(presign ?? null)),
    ]),
    () => {
      const checkpoint = { intervalMs }
      const settings = { dir, retentionDays, checkpoint, ...(presign === undefined ? {} : { presign }) }
      const value = new SvcAppender({ config: settings, signer, logger, clock, meter })
      return { value, close: () => value.close() }
    },
  )
  return { appender, keyId: signer.keyId }
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
  return LocalDevSigner.fromKeyRef(absolute(config.signer.keyRef, context.baseDir))
}

/** `file://./key` and `file://key` start from the policy's directory. */
function absolute(keyRef: string, baseDir: string): string {
  return `file://${resolvePath(baseDir, keyRef.slice('file://'.length))}`
}
