// The key `methods`.
import { z } from 'zod'
import type { ProtectionPreset } from '../shared/protection.js'
import { urlHostsSchema } from '../shared/url-hosts.js'

export const methodsSchema = z
  .strictObject({
    effect: z
      .enum(['off', 'report', 'deny'])
      .optional()
      .describe(
        'What happens to a method that MCP does not have and `allow` does not name, and to an app that is not allowed. Default: `report` in the preset `observe`, else `deny`.',
      ),
    allow: z
      .array(z.string().min(1).max(256))
      .optional()
      .describe('Methods beside those of MCP that clients and servers may use.'),
    apps: z
      .union([
        z.enum(['pass', 'deny']),
        z.strictObject({
          origins: urlHostsSchema.describe(
            'Hosts that the interface of a tool may declare: `host` or `*.domain`.',
          ),
        }),
      ])
      .optional()
      .describe(
        'Interfaces of tools (MCP Apps): `pass`, `deny`, or those that declare no other hosts than `origins`. Default: `pass`.',
      ),
  })
  .describe('Methods that MCP does not have, and interfaces of tools (MCP Apps).')

type MethodsSettings = z.output<typeof methodsSchema>

export interface MethodsConfig {
  readonly effect: 'report' | 'deny'
  readonly allow: ReadonlySet<string>
  readonly apps: NonNullable<MethodsSettings['apps']>
}

export function methodsConfig(
  settings: MethodsSettings | undefined,
  preset: ProtectionPreset | undefined,
): MethodsConfig | undefined {
  if (settings === undefined && preset === undefined) return undefined
  const { effect = preset === 'observe' ? 'report' : 'deny', allow = [], apps = 'pass' } = settings ?? {}
  return effect === 'off' ? undefined : { effect, allow: new Set(allow), apps }
}
