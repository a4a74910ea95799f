// The `entitlements` section: which tools each tenant and principal may use, and how often.
import { type ConfigConflict, definePlugin, identity, limits, type PolicyFacts } from '@svc/core'
import type { z } from 'zod'
import { ineffectiveLists } from './check.js'
import { entitlementsSchema } from './config.js'
import { EntitlementsStage } from './stage.js'
import { Tenants } from './tenants.js'

export const entitlementsPlugin = definePlugin({
  name: 'entitlements',
  version: '0.1.0',
  core: '^1.0.0',
  schema: entitlementsSchema,
  phase: 'authorization',
  presence: 'always',
  absent:
    'without an entitlements section no tool is allowed to any tenant; list tools per plan and tenant, or set entitlements: open',
  uses: [identity],
  provides: [limits],
  check: checkSection,
  create: (config, context) => new EntitlementsStage(new Tenants(config), context.tenant),
})

function checkSection(
  config: z.output<typeof entitlementsSchema>,
  { servers }: PolicyFacts,
): readonly ConfigConflict[] {
  if (config === 'none') return []
  if (config !== 'open') return ineffectiveLists(config, servers)
  const message = 'every tool is allowed to every tenant; list the allowed tools per plan and tenant'
  return [{ path: ['entitlements'], message, severity: 'warning' }]
}
