// The program of a worker of `svc gateway --workers`; the main process starts it.
import { runWorker } from '../workers/worker.js'
import { placesAtTerminal } from './gateway-terminal.js'
import { processIo } from './io.js'
import { openGateway } from './open-gateway.js'

runWorker(async ({ count, number, policy, isPreset, output, options }, link) => {
  const source = typeof policy === 'string' ? { policyYaml: policy } : { policyObject: policy }
  const opened = await openGateway(processIo(), output, {
    settings: { ...options, ...source },
    worker: { count, number, link },
  })
  await opened.gateway.ready()
  const effective = await opened.builder.policy()
  opened.output.follow(() =>
    placesAtTerminal(effective, isPreset ? undefined : options.policyFile, undefined),
  )
  return { ...opened, logger: opened.output.logger }
})
