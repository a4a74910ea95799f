// The protection `methods`.
import { resolve, resolveOptional, serverMethodRules, services, tokens } from '@svc/core'
import { defineProtection } from '../shared/protection.js'
import { methodsConfig, methodsSchema } from './config.js'
import { MethodsStage, methodReasons } from './stage.js'

export const methodsProtection = defineProtection({
  schema: methodsSchema,
  provides: [serverMethodRules],
  reasons: methodReasons,
  metrics: {
    svc_methods_unknown_total: {
      kind: 'counter',
      help: 'Requests and notifications with a method that MCP does not have.',
    },
    svc_apps_refused_total: {
      kind: 'counter',
      help: 'Interfaces of tools, and calls of tools for interfaces, that were refused.',
    },
  },
  configure(settings, preset) {
    const config = methodsConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      create({ container }) {
        const clock = resolve(container, tokens.Clock)
        return new MethodsStage(config, {
          meter: resolveOptional(container, tokens.Meter),
          now: () => clock.monotonic(),
          record: () => resolveOptional(container, services.record),
        })
      },
    }
  },
})
