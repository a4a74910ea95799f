// Runs every check of `svc doctor` on a policy.
import { type DoctorCheck, type PluginContext, withinLimit } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { EffectivePolicy } from '@svc/core/policy'
import type { HostConfig } from '../policy/config.js'
import { hostChecks, type SectionChecks } from './host.js'
import { stdioChecks } from './stdio-targets.js'

/** A check with the section of the policy that it is about. */
export interface SectionCheck extends DoctorCheck {
  readonly section: string
}

/** For all checks of one section, some of which ask several servers. */
const defaultTimeoutMs = 30_000

/** In the order of the host's keys, then of the stages. Never rejects. */
export async function runDoctor(
  policy: EffectivePolicy<HostConfig>,
  context: PluginContext,
): Promise<SectionCheck[]> {
  const { host, plugins, sections } = policy
  const ofPlugins = plugins.flatMap((plugin): SectionChecks[] => {
    const { name } = plugin
    const config = sections.get(name)
    return plugin.doctor === undefined
      ? []
      : [{ section: name, run: async () => (await plugin.doctor?.(config, context)) ?? [] }]
  })
  const all = [...hostChecks(host, context), ...stdioChecks(policy, context), ...ofPlugins]
  return (await Promise.all(all.map(checked))).flat()
}

async function checked({
  section,
  timeoutMs = defaultTimeoutMs,
  run,
}: SectionChecks): Promise<SectionCheck[]> {
  try {
    return (await withinLimit('the checks', run(), timeoutMs)).map((check) => ({ section, ...check }))
  } catch (error) {
    return [{ section, severity: 'error', message: messageOf(error) }]
  }
}
