// The audit plugin owns the writer and the signer behind their tokens.
import { bind, bindDefault, definePlugin, lateBound, resolve, services, token, tokens } from '@svc/core'
import { auditSchema } from './config.js'
import { metrics } from './metrics.js'
import { LogSource } from './open-log.js'
import { keyFault, missingSigner } from './signer-key.js'
import { AuditStage } from './stage.js'

/** The log that the stage opens and the tokens resolve. */
const logSource = token<LogSource>('audit/LogSource')

export const auditPlugin = definePlugin({
  name: 'audit',
  version: '0.1.0',
  core: '^1.0.0',
  schema: auditSchema,
  phase: 'record',
  presence: 'required',
  metrics,
  owns: [
    { token: tokens.Signer, chosenBy: [['signer', 'keyRef']] },
    {
      token: tokens.SvcAppender,
      given: { key: 'append', bind: (append) => (typeof append === 'function' ? { append } : undefined) },
      chosenBy: [['append'], ['signer'], ['presign']],
    },
  ],

  check({ signer }, { place }, isBound) {
    if (isBound(tokens.Signer) || isBound(tokens.SvcAppender)) return []
    const path = ['audit', 'signer', 'keyRef']
    if (signer?.keyRef === undefined) return [{ path, message: missingSigner }]
    const message = place && keyFault(signer.keyRef, place.baseDir)
    return message === undefined ? [] : [{ path, message }]
  },

  register(config, context) {
    const { container } = context
    const source = new LogSource(config, context)
    bind(container, logSource, { useValue: source })
    bindDefault(container, tokens.Signer, { useValue: lateBound('the signer', () => source.current?.signer) })
    bindDefault(container, tokens.SvcAppender, {
      useValue: lateBound('the audit log', () => source.current?.appender),
    })
  },

  create(config, context) {
    const { container } = context
    return new AuditStage({
      clock: resolve(container, tokens.Clock),
      ids: resolve(container, tokens.Ids),
      logger: resolve(container, tokens.Logger),
      meter: resolve(container, tokens.Meter),
      failureMode: config.failure_mode,
      intent: config.intent,
      ...(config.raw_payloads ? { rawPreviewBytes: config.rawPreviewBytes } : {}),
      recordContext: {
        environment: config.environment,
        clientName: config.clientName ?? config.gatewayName,
        clientVersion: config.clientVersion ?? config.gatewayVersion,
        gateway: `${config.gatewayName}@${config.gatewayVersion}`,
        retention: config.retention,
        tenant: context.tenant,
        policySha256: context.policySha256,
      },
      log: resolve(container, logSource),
      redactor: () => context.service?.(services.redactor),
    })
  },
})
