// `svc gateway --workers`: the supervisor, which keeps the ports and starts the workers.

import { CORE_VERSION } from '@svc/core'
import { defined } from '@svc/core/json'
import { asWorker, GatewayBuilder } from '../gateway/builder.js'
import { listenAdmin } from '../gateway/listen-admin.js'
import type { GatewaySettings } from '../gateway/options.js'
import { listenerUrl } from '../http/listen.js'
import { openTelemetry } from '../telemetry/open-telemetry.js'
import { lockPort, type PortLock, requireSharedPorts } from '../workers/port-lock.js'
import { WorkerSupervisor } from '../workers/worker-supervisor.js'
import { exportLines, type GatewayOutput, type OutputFlags } from './gateway-terminal.js'

export interface SeveralWorkers {
  readonly count: number
  readonly settings: Pick<GatewaySettings, 'policyFile' | 'policyYaml' | 'port' | 'sec0Dir'>
  readonly isPreset: boolean
  readonly flags: OutputFlags & { readonly watch?: true }
}

/** Resolves when all workers listen. Rejects with `PolicyError`, or with the reason why a worker or a port cannot start. */
export async function startWorkers(
  { count, settings, isPreset, flags }: SeveralWorkers,
  output: GatewayOutput,
) {
  requireSharedPorts()
  const { logger } = output
  const { port: given, ...options } = settings
  // Mistakes are reported here, once, and not by every worker.
  const builder = new GatewayBuilder(settings, asWorker({ count, number: 0, ports: {} }))
  const { admin, server, port } = (await builder.policy()).host
  const telemetry = await openTelemetry(process.env, { version: CORE_VERSION, process: 'supervisor' }, logger)
  // The supervisor sees no call, so its lines have nothing of callers that could be redacted.
  exportLines(output, telemetry, () => undefined)
  const locks: PortLock[] = []
  const lock = async (at: Parameters<typeof lockPort>[0]): Promise<number> => {
    const held = await lockPort(at)
    locks.push(held)
    return held.port
  }
  let supervisor: WorkerSupervisor | undefined
  /** Rejects if a worker did not end cleanly. */
  const close = async (): Promise<void> => {
    const isClean = await supervisor?.close()
    await Promise.all(locks.map((held) => held[Symbol.asyncDispose]()))
    await telemetry?.close()
    if (isClean === false) throw new Error('a worker did not end cleanly')
  }
  try {
    const calls = await lock({ host: server.host, port: given ?? port })
    const adminPort = admin && (await listenAdmin(() => lock(admin), { isShared: isPreset, logger }))
    const { quiet, logLevel } = flags
    supervisor = new WorkerSupervisor({
      module: new URL('./gateway-worker.js', import.meta.url),
      settings: {
        options,
        count,
        ports: { calls, ...defined({ admin: adminPort }) },
        isPreset,
        isWatching: flags.watch === true,
        output: { ...(quiet && { quiet }), ...defined({ logLevel }) },
      },
      clock: { monotonic: () => performance.now() },
      logger,
    })
    if (telemetry !== undefined) supervisor.addMetricsTo(telemetry.metrics.registry)
    await supervisor.start()
    const adminUrl =
      admin && adminPort !== undefined
        ? listenerUrl(admin.host, adminPort, admin.tls !== undefined)
        : undefined
    const listening = { url: listenerUrl(server.host, calls, server.tls !== undefined), adminUrl }
    return { supervisor, builder, listening, close }
  } catch (error) {
    // The caller gets the first error, because it says more than that a worker was killed.
    await close().catch((err: unknown) => logger.debug({ err }, 'did not close cleanly'))
    throw error
  }
}
