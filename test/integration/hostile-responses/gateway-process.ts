// node gateway-process.js TARGETS: a gateway alone in its process, which says its URL.
import { startTestGateway } from '../../support/gateway.js'

const [targets = '{}'] = process.argv.slice(2)
const gateway = await startTestGateway({
  targets: JSON.parse(targets),
  federation: { servers: ['federated'] },
})
process.once('disconnect', () => void gateway[Symbol.asyncDispose]())
process.send?.(gateway.url)
