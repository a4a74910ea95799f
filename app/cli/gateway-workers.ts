// `svc gateway --workers`: the main process, which starts the workers and keeps the ports.
import { CORE_VERSION } from '@svc/core'
import { GatewayBuilder, withWorkers } from '../gateway/builder.js'
import { listenAdmin } from '../gateway/listen-admin.js'
import type { GatewaySettings } from '../gateway/options.js'
import { listenerUrl } from '../http/listen.js'
import { openTelemetry } from '../telemetry/open-telemetry.js'
import { GatewayWorkers } from '../workers/gateway-workers.js'
import { exportLines, type GatewayOutput, type OutputFlags } from './gateway-terminal.js'

export interface SeveralWorkers {
  readonly count: number
  readonly settings: Pick<GatewaySettings, 'policyFile' | 'policyYaml' | 'port' | 'sec0Dir'>
  readonly isPreset: boolean
  readonly flags: OutputFlags
}

/** Resolves when all workers serve. Rejects with `PolicyError`, or with the reason why a worker or a port cannot start. */
export async function startWorkers(
  { count, settings, isPreset, flags }: SeveralWorkers,
  output: GatewayOutput,
) {
  const { logger } = output
  const { policyYaml: given, ...options } = settings
  // Mistakes are reported here, once, and not by every worker.
  const builder = new GatewayBuilder(settings, withWorkers(count))
  const policy = await builder.policy()
  const telemetry = await openTelemetry(process.env, { version: CORE_VERSION, process: 'main' }, logger)
  // The main process sees no call, so its lines have nothing of callers that could be redacted.
  exportLines(output, telemetry, () => undefined)
  const workers = new GatewayWorkers({
    module: new URL('./gateway-worker.js', import.meta.url),
    settings: {
      options,
      count,
      policy: given ?? policy.texts.at(-1) ?? '',
      ...(isPreset ? { isPreset } : {}),
      output: { ...(flags.quiet && { quiet: true }), ...(flags.logLevel && { logLevel: flags.logLevel }) },
    },
    check: (source) => builder.policyFrom(source),
    readFile: () => builder.readPolicyFile(),
    clock: { now: () => Date.now(), monotonic: () => performance.now() },
    logger,
  })
  if (telemetry !== undefined) workers.addMetricsTo(telemetry.metrics.registry)
  try {
    await workers.start()
    const { host, port, server } = { ...policy.host, host: policy.host.server.host }
    const { admin } = policy.host
    const adminPort =
      admin && (await listenAdmin(() => workers.listen('admin', admin), { isShared: isPreset, logger }))
    const adminUrl =
      adminPort === undefined
        ? undefined
        : listenerUrl(admin?.host ?? '', adminPort, admin?.tls !== undefined)
    const listening = await workers.listen('calls', { host, port })
    const url = listenerUrl(host, listening, server.tls !== undefined)
    return {
      workers,
      builder,
      listening: { url, adminUrl },
      /** Rejects if a worker did not end cleanly. */
      async close(): Promise<void> {
        const isClean = await workers.close()
        await telemetry?.close()
        if (!isClean) throw new Error('a worker did not end cleanly')
      },
    }
  } catch (error) {
    await workers.close()
    await telemetry?.close()
    throw error
  }
}
