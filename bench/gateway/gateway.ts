// The gateway in a separate process, so that CPU time and memory are measured for it alone.
import { readFile } from 'node:fs/promises'
import { startGatewayServer } from 'svc-sdk/gateway'
import { answerParent } from '../measure/child.js'

const [policyFile = ''] = process.argv.slice(2)
const gateway = startGatewayServer({ policyYaml: await readFile(policyFile, 'utf8'), policyFile })
const { port } = await gateway.ready()
answerParent(port, {})
process.prependListener('disconnect', () => {
  void gateway.close()
})
