// The protection `server_requests`.
import { type RecordEvent, resolve, resolveOptional, serverRequestRules, services, tokens } from '@svc/core'
import { foldName } from '@svc/core/match'
import { unknownServers } from '@svc/core/policy'
import { SchemaThread } from '../schema/schema-thread.js'
import { defineProtection } from '../shared/protection.js'
import { serverRequestsConfig, serverRequestsSchema } from './config.js'
import { requestReasons, ServerRequestJudge } from './judge.js'

export const serverRequestsProtection = defineProtection({
  schema: serverRequestsSchema,
  provides: [serverRequestRules],
  reasons: requestReasons,
  metrics: {
    svc_server_requests_total: { kind: 'counter', help: 'Requests of servers to clients.' },
    svc_server_requests_refused_total: {
      kind: 'counter',
      help: 'Requests of servers to clients, and responses to them, that were refused.',
    },
  },
  configure(settings, preset) {
    const config = serverRequestsConfig(settings, preset)
    if (config === undefined) return undefined
    return {
      // With a misspelled name, the intended server would have the other settings.
      check: (bindings) =>
        unknownServers(['protections', 'server_requests', 'servers'], config.servers, bindings),
      create({ container, publicUrl }) {
        const clock = resolve(container, tokens.Clock)
        const schemas = new SchemaThread(clock)
        let record: RecordEvent | undefined
        const rules = new ServerRequestJudge(config, {
          schemas,
          ownHosts: publicUrl === undefined ? [] : [foldName(new URL(publicUrl).host)],
          meter: resolveOptional(container, tokens.Meter),
          now: () => clock.monotonic(),
          record: () => record,
        })
        return {
          async start() {
            record = resolveOptional(container, services.record)
          },
          handle(call, next) {
            call.set(serverRequestRules, rules)
            return next()
          },
          stop: () => schemas.close(),
        }
      },
    }
  },
})
