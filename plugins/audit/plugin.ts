// The audit plugin owns the writer and the signer behind their tokens.
import {
  bind,
  bindDefault,
  type ConfigConflict,
  declareMetrics,
  definePlugin,
  hostOf,
  type PluginContext,
  resolve,
  resolveOptional,
  services,
  token,
  tokens,
} from '@svc/core'
import { type AuditConfig, auditSchema } from './config.js'
import { checkLog } from './doctor.js'
import { metrics } from './metrics.js'
import { LogSource, logDirectory } from './open-log.js'
import { recordContextOf } from './record.js'
import { recordListener } from './record-listener.js'
import { keyError, missingSigner } from './signer-key.js'
import { AuditStage } from './stage.js'

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
