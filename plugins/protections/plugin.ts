// Composes the protections that the section turns on into one stage.
import { definePlugin } from '@svc/core'
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
  metrics: Object.assign({}, ...all.map(({ metrics }) => metrics)),
  check: (config, bindings) => [
    ...conflictsOf(config),
    ...configuredProtections(config).flatMap((one) => one.check?.(bindings) ?? []),
  ],
  effects: 'stores',
  create: (config, context) =>
    new ProtectionsStage(configuredProtections(config).map((one) => one.create(context))),
  async doctor(config, context) {
    const checks = configuredProtections(config).map((one) => one.doctor?.(context) ?? [])
    return (await Promise.all(checks)).flat()
  },
})
