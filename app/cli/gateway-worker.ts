// The program of a worker of `svc gateway --workers`; the supervisor starts it.
import { runWorker } from '../workers/worker.js'
import { placesAtTerminal } from './gateway-terminal.js'
import { processIo } from './io.js'
import { openGateway } from './open-gateway.js'

runWorker(async ({ options, output, isPreset, isWatching, ...worker }, link) => {
  const opened = await openGateway(processIo(), output, {
    settings: options,
    sharesAdmin: isPreset,
    worker: { ...worker, link },
  })
  const { gateway, builder } = opened
  await gateway.ready()
  const effective = await builder.policy()
  const file = isPreset ? undefined : options.policyFile
  opened.output.follow(() => placesAtTerminal(effective, file, undefined))
  if (isWatching && file !== undefined) gateway.watchPolicy(file)
  return {
    logger: opened.output.logger,
    reloadFile: (cause) => gateway.reloadFile(cause),
    metrics: opened.metrics,
    close: opened.close,
  }
})
