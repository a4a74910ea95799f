// The options of commands that run without a policy file.
import { Option } from 'commander'
import { presets } from '../policy/presets/preset-policy.js'
import { defaultAdminPort } from '../policy/presets/preset-start.js'
import { portOf } from './option-values.js'

export function presetOption(): Option {
  const meaning = 'a policy that is made for the servers: observe denies nothing, guard refuses what is risky'
  return new Option('--preset <name>', meaning).choices(presets)
}

export function adminPortOption(): Option {
  const meaning = 'with --preset guard: where approvals are given; 0 picks a free port'
  return new Option('--admin-port <n>', meaning).argParser(portOf).default(defaultAdminPort)
}
