// Opens the gateway of a process of `svc gateway`: its output, its telemetry, its settings.
import { bind, CORE_VERSION, type Logger, resolveOptional, tokens } from '@svc/core'
import { asWorker, GatewayBuilder } from '../gateway/builder.js'
import type { GatewaySettings } from '../gateway/options.js'
import { Gateway } from '../gateway/start.js'
import type { WorkerLink } from '../gateway/worker-link.js'
import { gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { openTelemetry } from '../telemetry/open-telemetry.js'
import type { WorkerSettings } from '../workers/messages.js'
import { exportLines, GatewayOutput, type OutputFlags } from './gateway-terminal.js'
import type { CliIo } from './io.js'

export interface GatewayOpening {
  readonly settings: GatewaySettings
  /** If another process has the port for approvals, the gateway starts without one. */
  readonly sharesAdmin?: boolean
  /** Set in one of several processes. */
  readonly worker?: Pick<WorkerSettings, 'count' | 'number' | 'ports'> & { readonly link: WorkerLink }
}

/** Throws `PolicyError` if the configuration is wrong; the gateway may start, or not, after this. */
export async function openGateway(
  io: CliIo,
  flags: OutputFlags,
  { settings, sharesAdmin = false, worker }: GatewayOpening,
) {
  const output = new GatewayOutput(io.outLine, 1, flags)
  const { logger } = output
  const telemetry = await openTelemetry(
    process.env,
    { version: CORE_VERSION, process: worker?.number },
    logger,
  )
  const builder = new GatewayBuilder(
    {
      ...settings,
      configure: (container) => {
        bind<Logger>(container, tokens.Logger, { useValue: logger })
        telemetry?.bindTo(container)
        output.bindTo(container)
      },
    },
    worker && asWorker(worker),
  )
  exportLines(output, telemetry, () => builder.redactor)
  const gateway = new Gateway(builder, { sharesAdmin, ...(worker && { link: worker.link }) })
  return {
    gateway,
    builder,
    output,
    /** Calls have ended, and the log is closed. */
    close: () => gateway.close().finally(() => telemetry?.close()),
    /** The metrics of this process alone. */
    metrics: async () => resolveOptional(builder.bindings, gatewayMetrics)?.text() ?? '',
  }
}
