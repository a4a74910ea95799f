// The gateway in a separate process, so that CPU time and memory are measured for it alone.
import { CORE_VERSION, resolve, tokens } from '@svc/core'
import { startGatewayServer } from 'svc-sdk/gateway'
import { respondToParent } from '../measure/child.js'

const [policyFile = ''] = process.argv.slice(2)
// As the command does. The module is internal: a process with these variables needs `--conditions=svc-internal`.
const isObserved = Object.keys(process.env).some((name) => name.startsWith('OTEL_'))
const telemetry = isObserved
  ? await (await import('svc-sdk/internal/telemetry/open-telemetry')).openTelemetry(
      process.env,
      { version: CORE_VERSION },
      { debug: print, info: print, warn: print, error: print },
    )
  : undefined
const gateway = startGatewayServer({ policyFile, configure: (container) => telemetry?.bindTo(container) })
const { port } = await gateway.ready()
respondToParent(port, { signatures })
process.prependListener('disconnect', () => {
  void gateway.close()
})

function signatures(): { all: number; byThread: number } {
  const status: object = resolve(gateway.container, tokens.SvcAppender).status?.() ?? {}
  if (!('appended' in status && 'signedByThread' in status)) throw new Error('the log counts no signatures')
  return { all: Number(status.appended), byThread: Number(status.signedByThread) }
}

function print(fields: object, message: string): void {
  console.error(message, fields)
}
