// The audit plugin owns the writer and the signer behind their tokens.
import { definePlugin, resolve, services, tokens } from '@svc/core'
import { auditSchema } from './config.js'
import { metrics } from './metrics.js'
import { keepsIntents, openLog } from './open-log.js'
import { AuditStage } from './stage.js'

export const auditPlugin = definePlugin({
  name: 'audit',
  version: '0.1.0',
  core: '^1.0.0',
  schema: auditSchema,
  phase: 'record',
  presence: 'required',
  metrics,
  create(config, context) {
    const { container } = context
    return new AuditStage({
      clock: resolve(container, tokens.Clock),
      ids: resolve(container, tokens.Ids),
      logger: resolve(container, tokens.Logger),
      meter: resolve(container, tokens.Meter),
      failureMode: config.failure_mode,
      intent: config.intent,
      keepsIntents: keepsIntents(config, context),
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
      open: () => openLog(config, context),
      redactor: () => context.service?.(services.redactor),
    })
  },
})
