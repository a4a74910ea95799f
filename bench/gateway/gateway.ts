// The gateway in a separate process, so that CPU time and memory are measured for it alone.
import { resolve, tokens } from '@svc/core'
import { startGatewayServer } from 'svc-sdk/gateway'
import { respondToParent } from '../measure/child.js'

const [policyFile = ''] = process.argv.slice(2)
const gateway = startGatewayServer({ policyFile })
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
