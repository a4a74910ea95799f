// The protection `schema`: the arguments of tools against the schemas of their pinned definitions.
import { resolve, resolveOptional, tokens } from '@svc/core'
import { defineProtection } from '../shared/protection.js'
import { schemaConfig, schemaSchema } from './config.js'
import { SchemaStage, schemaReasons } from './stage.js'

export const schemaProtection = defineProtection({
  schema: schemaSchema,
  reasons: schemaReasons,
  metrics: {
    svc_schema_checks_total: { kind: 'counter', help: 'Calls whose arguments were checked by a schema.' },
    svc_schema_findings_total: {
      kind: 'counter',
      help: 'Calls whose arguments did not fit their schema, or could not be checked.',
    },
  },
  configure(settings, preset) {
    const config = schemaConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      create: ({ container }) =>
        new SchemaStage(config, resolve(container, tokens.Clock), resolveOptional(container, tokens.Meter)),
    }
  },
})
