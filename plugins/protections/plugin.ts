// Composes the protections that the section turns on into one stage.
import { definePlugin } from '@svc/core'
import { configuredProtections, protections, protectionsSchema } from './config.js'
import { ProtectionsStage } from './stage.js'

const all = Object.values(protections)

export const protectionsPlugin = definePlugin({
  name: 'protections',
  version: '1.0.0',
  core: '^1.0.0',
  schema: protectionsSchema,
  phase: 'inspection',
  uses: all.flatMap(({ uses = [] }) => uses),
  provides: all.flatMap(({ provides = [] }) => provides),
  reasons: all.flatMap(({ reasons = [] }) => reasons),
  metrics: Object.assign({}, ...all.map(({ metrics }) => metrics)),
  check: (config, bindings) => configuredProtections(config).flatMap((one) => one.check?.(bindings) ?? []),
  bindInMemory(config, context) {
    for (const one of configuredProtections(config)) one.bindInMemory?.(context)
  },
  register(config, context) {
    for (const one of configuredProtections(config)) one.register?.(context)
  },
  create: (config, context) =>
    new ProtectionsStage(configuredProtections(config).map((one) => one.create(context))),
  async doctor(config, context) {
    const checks = configuredProtections(config).map((one) => one.doctor?.(context) ?? [])
    return (await Promise.all(checks)).flat()
  },
})
