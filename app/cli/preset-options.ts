// The options of commands that run without a policy file, and what their targets are.
import { messageOf } from '@svc/core/json'
import { Option } from 'commander'
import { presets } from '../policy/presets/preset-policy.js'
import { defaultAdminPort } from '../policy/presets/preset-start.js'
import type { NamedTarget } from '../policy/presets/target-argument.js'
import { portOf } from './option-values.js'

export function presetOption(): Option {
  const meaning = 'a policy that is made for the servers: observe denies nothing, guard refuses what is risky'
  return new Option('--preset <name>', meaning).choices(presets)
}

export function adminPortOption(use = 'with --preset guard: where approvals are given'): Option {
  return new Option('--admin-port <n>', `${use}; 0 picks a free port`)
    .argParser(portOf)
    .default(defaultAdminPort)
}

export interface AskedTarget {
  readonly named: NamedTarget
  /** States what is not known of the target, or differs from what was expected. */
  readonly warning?: string
}

/** A URL that responds to the handshake of MCP gets `mcp+`, so that the invoke protocol calls its tools too. */
export async function askedTarget(named: NamedTarget): Promise<AskedTarget> {
  const { name, target } = named
  if (typeof target !== 'string' || !/^https?:/i.test(target)) return { named }
  // Loaded here, because it loads the code that calls servers.
  const { inHttpSession } = await import('../doctor/listed-tools.js')
  try {
    await inHttpSession(target, async () => undefined)
    return { named: { name, target: `mcp+${target}` } }
  } catch (error) {
    const warning = `${target} is not known to be an MCP server (${messageOf(error).replace(/\.$/, '')}), so calls go there as plain HTTP requests; if it is one, start it first, or write mcp+${target}`
    return { named, warning }
  }
}
