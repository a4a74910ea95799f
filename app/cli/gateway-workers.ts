// `svc gateway --workers`: the main process, which starts the workers and keeps the ports.
import { GatewayBuilder, withWorkers } from '../gateway/builder.js'
import { listenAdmin } from '../gateway/listen-admin.js'
import type { GatewaySettings } from '../gateway/options.js'
import { listenerUrl } from '../http/listen.js'
import { GatewayWorkers } from '../workers/gateway-workers.js'
import type { GatewayOutput, OutputFlags } from './gateway-terminal.js'

export interface SeveralWorkers {
  readonly count: number
  readonly settings: Pick<GatewaySettings, 'policyFile' | 'policyYaml' | 'port' | 'sec0Dir'>
  readonly isPreset: boolean
  readonly flags: OutputFlags
}

/** Resolves when all workers serve. Rejects with `PolicyError`, or with the reason why a worker or a port cannot start. */
export async function startWorkers(
  { count, settings, isPreset, flags }: SeveralWorkers,
  { logger }: GatewayOutput,
) {
  const { policyYaml: given, ...options } = settings
  // Mistakes are reported here, once, and not by every worker.
  const builder = new GatewayBuilder(settings, withWorkers(count))
  const policy = await builder.policy()
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
  await workers.start()
  try {
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
    return { workers, builder, listening: { url, adminUrl } }
  } catch (error) {
    await workers.close()
    throw error
  }
}
