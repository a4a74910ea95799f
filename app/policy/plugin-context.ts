// Gives plugins the facts of the policy under which they run, in a gateway and in commands that explain or check a policy.
import { resolve } from 'node:path'
import type { PluginContext } from '@svc/core'
import type { EffectivePolicy } from '@svc/core/policy'
import { canonicalBase } from '../http/public-url.js'
import { addressesOf } from '../stdio/targets/config.js'
import type { HostConfig } from './config.js'

/** The parts that do not follow from the policy. Its relative paths start from `baseDir`. */
type PlacedContext = Pick<PluginContext, 'container' | 'resources' | 'baseDir' | 'env' | 'warn'>

export function pluginContext(policy: EffectivePolicy<HostConfig>, context: PlacedContext): PluginContext {
  const { host, sha256, texts } = policy
  const { publicUrl } = host.server
  return {
    tenant: host.tenant,
    targets: addressesOf(host.targets),
    groups: host.federation.groups,
    ...(publicUrl === undefined ? {} : { publicUrl: canonicalBase(publicUrl) }),
    policySha256: sha256,
    policyTexts: texts,
    stateDir: resolve(context.baseDir, host.sec0Dir),
    secrets: host.secrets,
    ...context,
  }
}
