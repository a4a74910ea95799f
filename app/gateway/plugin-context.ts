// What plugins may know of the policy they run under: for a gateway, and for what only explains or checks one.
import { resolve } from 'node:path'
import type { PluginContext } from '@svc/core'
import type { EffectivePolicy } from '@svc/core/policy'
import { canonicalBase } from '../http/public-url.js'
import type { HostConfig } from '../policy/config.js'
import { addressesOf } from '../stdio-targets/config.js'

/** What does not follow from the policy. Relative paths of the policy start from `baseDir`. */
type ContextParts = Pick<PluginContext, 'container' | 'resources' | 'baseDir' | 'env' | 'warn'>

export function pluginContext(policy: EffectivePolicy<HostConfig>, parts: ContextParts): PluginContext {
  const { host, sha256, facts } = policy
  const { publicUrl } = host.server
  return {
    tenant: host.tenant,
    targets: addressesOf(host.targets),
    groups: host.federation.groups,
    ...(publicUrl === undefined ? {} : { publicUrl: canonicalBase(publicUrl) }),
    policySha256: sha256,
    facts,
    stateDir: resolve(parts.baseDir, host.sec0Dir),
    ...parts,
  }
}
