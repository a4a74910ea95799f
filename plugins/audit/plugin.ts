// The audit plugin owns the writer and the signer behind their tokens, with their checks for `svc doctor` and their metrics.
import {
  bind,
  bindDefault,
  type ConfigConflict,
  checkServer,
  checkUsable,
  type DoctorCheck,
  declareMetrics,
  definePlugin,
  hostOf,
  type MetricEntry,
  type PluginContext,
  resolve,
  resolveOptional,
  services,
  token,
  tokens,
} from '@svc/core'
import { messageOf } from '@svc/core/json'
import { checkDirectory } from '@svc/core/store'
import { type AuditConfig, auditSchema } from './config.js'
import { ControlPlane } from './log/upload/control-plane.js'
import { isOidcToken, type PresignConfig } from './log/upload/presign.js'
import { ownerPrefix } from './log/upload/source.js'
import { storedObjects } from './log/upload/stored-objects.js'
import { LogSource, logDirectory } from './open-log.js'
import { recordContextOf, recordListener } from './record.js'
import { keyError, missingSigner } from './signer-key.js'
import { AuditStage } from './stage.js'

async function checkLog(
  config: AuditConfig,
  context: PluginContext,
  source: LogSource,
): Promise<readonly DoctorCheck[]> {
  if (source.isExternal) {
    return [{ severity: 'ok', message: 'the log is written by code, which is not checked' }]
  }
  const keyRef = config.signer?.keyRef
  const { presign } = config
  return [
    ...(keyRef === undefined ? [] : [checkSigner(keyRef, context)]),
    ...(await checkDirectory('the log in', logDirectory(config, context), config.minFreeMb)),
    ...(presign === undefined ? [] : await checkUpload(presign)),
  ]
}

function checkSigner(keyRef: string, { baseDir }: PluginContext): DoctorCheck {
  const warnings: string[] = []
  const error = keyError(keyRef, baseDir, (warning) => warnings.push(warning))
  if (error !== undefined) {
    const hint = '`npx svc-sdk keys generate --out FILE` makes a key; name its file in audit.signer.keyRef'
    return { severity: 'error', message: `the signing key cannot be used: ${error}`, hint }
  }
  const [warning] = warnings
  if (warning !== undefined) return { severity: 'warning', message: warning }
  return { severity: 'ok', message: 'the signing key can be used' }
}

async function checkUpload(presign: PresignConfig): Promise<readonly DoctorCheck[]> {
  const { apiBaseUrl, auditKey, timeoutMs } = presign
  const [reached, ...clock] = await checkServer('the control plane', apiBaseUrl)
  if (reached.severity === 'error') return [reached, ...clock]
  const controlPlane = new ControlPlane(presign, timeoutMs ?? 0)
  const hint = 'check audit.presign.auditKey: the whole Authorization header, such as "Bearer <API_KEY>"'
  const { signal } = new AbortController()
  try {
    // The control plane returns no metadata for an OIDC token, so the listing checks it.
    const key = isOidcToken(auditKey)
      ? []
      : [await checkUsable('the key of the control plane', hint, () => controlPlane.checkKey(signal))]
    const isRefused = key.some(({ severity }) => severity === 'error')
    return [reached, ...clock, ...key, ...(isRefused ? [] : [await checkBucket(controlPlane, signal)])]
  } finally {
    await controlPlane.close()
  }
}

/** Lists objects with their checksums, which takes the permissions to list and to read; an upload cannot be tried. */
async function checkBucket(controlPlane: ControlPlane, signal: AbortSignal): Promise<DoctorCheck> {
  const ask: ControlPlane['ask'] = (...request) => controlPlane.ask(...request)
  try {
    const query = { prefix: ownerPrefix(await controlPlane.metadata(signal)), checksums: true }
    await storedObjects(ask, query, signal).next()
    return { severity: 'ok', message: 'the bucket of the control plane can be listed' }
  } catch (error) {
    const message = `the bucket of the control plane cannot be listed: ${messageOf(error)}`
    const hint =
      'a lost upload state then begins anew; the control plane needs s3:ListBucket, s3:GetObject and s3:PutObject, and its log has the reason'
    return { severity: 'error', message, hint }
  }
}

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_audit_append_failures_total: {
    kind: 'counter',
    help: 'Records that could not be made durable.',
  },
  svc_audit_append_duration_seconds: {
    kind: 'histogram',
    help: 'Time from the end of a call until its record was durable, in seconds.',
  },
  svc_audit_intent_failures_total: {
    kind: 'counter',
    help: 'Intents that could not be made durable before their call.',
  },
  svc_audit_raw_payload_failures_total: {
    kind: 'counter',
    help: 'Raw payload records that could not be written.',
  },
  svc_audit_agent_runs_unnamed_total: {
    kind: 'counter',
    help: 'Records without the agent run that the call named, because its tenant had named too many new ones.',
  },
  svc_audit_queue_bytes: { kind: 'gauge', help: 'Bytes of accepted records that are not durable yet.' },
  svc_audit_seal_lag_seconds: {
    kind: 'gauge',
    help: 'Time since all records were sealed; 0 if another process seals this log, or none does.',
  },
  svc_audit_disk_free_bytes: {
    kind: 'gauge',
    help: "Free space on the log's disk, in bytes.",
    isEmptyAtFirst: true,
  },
  svc_audit_disk_low_total: {
    kind: 'counter',
    help: "Times that free space on the log's disk fell below the minimum.",
  },
  svc_audit_seal_failures_total: { kind: 'counter', help: 'Failed attempts to seal new records.' },
  svc_audit_cosign_failures_total: {
    kind: 'counter',
    help: 'Requests for a cosignature that a witness did not grant.',
  },
  svc_audit_upload_pending_bytes: { kind: 'gauge', help: 'Bytes of the log that are not uploaded yet.' },
  svc_audit_upload_oldest_pending_seconds: {
    kind: 'gauge',
    help: 'How long the oldest of them wait for their upload.',
  },
  svc_audit_upload_last_success_timestamp_seconds: {
    kind: 'gauge',
    help: 'Time of the last object that this process uploaded, in seconds since 1970.',
    isEmptyAtFirst: true,
  },
  svc_audit_upload_bytes_total: { kind: 'counter', help: 'Uploaded bytes of the log.' },
  svc_audit_upload_objects_total: { kind: 'counter', help: 'Uploaded objects.' },
  svc_audit_upload_failures_total: { kind: 'counter', help: 'Failed upload attempts.' },
}

/** The log that the stage opens and the tokens resolve. */
const logSource = token<LogSource>('audit/LogSource')

export const auditPlugin = definePlugin({
  name: 'audit',
  version: '1.0.0',
  core: '^1.0.0',
  schema: auditSchema,
  phase: 'record',
  owns: [
    { token: tokens.Signer, selectedBy: [['signer', 'keyRef']] },
    {
      token: tokens.SvcAppender,
      fromOption: {
        key: 'append',
        bind: (append) => (typeof append === 'function' ? { append } : undefined),
      },
      selectedBy: [['append'], ['signer'], ['presign']],
      bind(config: AuditConfig, context: PluginContext) {
        const { container } = context
        const source = new LogSource(config, context)
        bind(container, logSource, { useValue: source })
        // A log that code writes has no signer here, so notices are sent unsigned.
        if (container.isRegistered(tokens.SvcAppender, true)) return
        bindDefault(container, tokens.Signer, { useCurrent: () => source.current?.signer })
        bindDefault(container, tokens.SvcAppender, { useCurrent: () => source.current?.appender })
      },
    },
  ],

  check({ signer, presign }, bindings) {
    const { place, tenant } = hostOf(bindings)
    const found: ConfigConflict[] = []
    if (presign?.tenant !== undefined && tenant !== undefined && presign.tenant !== tenant) {
      const message = `is "${presign.tenant}", and the gateway's tenant is "${tenant}"; give one, or both the same`
      found.push({ path: ['audit', 'presign', 'tenant'], message })
    }
    // A binding in code is reported with the choices of the policy.
    if (signer?.keyRef !== undefined && bindings.isRegistered(tokens.Signer)) {
      const message = 'names a key, and a plugin binds the signer; remove one of the two'
      found.push({ path: ['audit', 'signer', 'keyRef'], message })
    }
    if ([tokens.Signer, tokens.SvcAppender].some((token) => bindings.isRegistered(token, true))) return found
    const message =
      signer?.keyRef === undefined ? missingSigner : place && keyError(signer.keyRef, place.baseDir)
    if (message !== undefined) found.push({ path: ['audit', 'signer', 'keyRef'], message })
    const retiring = signer?.retiringKeyRef
    const error = retiring === undefined ? undefined : place && keyError(retiring, place.baseDir)
    if (error !== undefined) found.push({ path: ['audit', 'signer', 'retiringKeyRef'], message: error })
    return found
  },

  create(config, context) {
    const { container } = context
    declareMetrics(container, metrics)
    const log = resolve(container, logSource)
    const recordContext = recordContextOf(config, context)
    const dir = log.isExternal ? undefined : logDirectory(config, context)
    const { gateway, policySha256 } = recordContext
    const sealIntervalMs = config.checkpoints ? config.checkpointIntervalMs : null
    const logId = () => log.current?.appender.logId
    bindDefault(container, services.auditLog, {
      useValue: { gateway, policySha256, dir, sealIntervalMs, logId },
    })
    const stage = new AuditStage({
      clock: resolve(container, tokens.Clock),
      ids: resolve(container, tokens.Ids),
      logger: resolve(container, tokens.Logger),
      meter: resolve(container, tokens.Meter),
      failureMode: config.failure_mode,
      intent: config.intent,
      ...(config.raw_payloads ? { rawPreviewBytes: config.rawPreviewBytes } : {}),
      recordContext,
      log,
      redactor: () => resolveOptional(container, services.redactor),
      onRecord: resolveOptional(container, recordListener),
      doctor: () => checkLog(config, context, log),
    })
    bindDefault(container, services.record, { useValue: stage.recordEvent })
    bindDefault(container, services.recordOnSettle, { useValue: stage.recordOnSettle })
    return stage
  },
})
