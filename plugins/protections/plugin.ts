// Composes the protections that the section turns on into one stage.
import { declareMetrics, definePlugin } from '@svc/core'
import { configuredProtections, conflictsOf, protections, protectionsSchema } from './config.js'
import { ProtectionsStage } from './stage.js'

const all = Object.values(protections)

export const protectionsPlugin = definePlugin({
  name: 'protections',
  version: '1.0.0',
  core: '^1.0.0',
  schema: protectionsSchema,
  phase: 'inspection',
  uses: [...new Set(all.flatMap(({ uses = [] }) => uses))],
  provides: [...new Set(all.flatMap(({ provides = [] }) => provides))],
  owns: all.flatMap(({ owns = [] }) => owns),
  reasons: all.flatMap(({ reasons = [] }) => reasons),
  check: (config, bindings) => [
    ...conflictsOf(config),
    ...configuredProtections(config).flatMap((one) => one.check?.(bindings) ?? []),
  ],
  create(config, context) {
    for (const { metrics = {} } of all) declareMetrics(context.container, metrics)
    return new ProtectionsStage(configuredProtections(config).map((one) => one.create(context)))
  },
})
