// The key `schema`.
import { patternsSchema } from '@svc/core/policy'
import { z } from 'zod'
import type { ProtectionPreset } from '../shared/protection.js'

const effect = z.enum(['off', 'report', 'enforce'])
export type SchemaEffect = z.output<typeof effect>

export const schemaSchema = z
  .union([
    effect,
    z.strictObject({
      default: effect.optional().describe('The effect for tools that no pattern matches.'),
      tools: patternsSchema(effect)
        .optional()
        .describe('The effect by pattern of tools. The most specific pattern wins.'),
    }),
  ])
  .describe(
    'Arguments that do not fit the schema of their tool: `report`, or `enforce`, which refuses the call. Needs `definitions`. Default: by the preset, `report` in `observe`, `enforce` in `guard`.',
  )

export interface SchemaConfig {
  readonly default: SchemaEffect
  readonly tools: Readonly<Record<string, SchemaEffect>>
}

/** Undefined if it is off for all tools. */
export function schemaConfig(
  settings: z.output<typeof schemaSchema> | undefined,
  preset: ProtectionPreset | undefined,
): SchemaConfig | undefined {
  const ofPreset = preset === undefined ? 'off' : preset === 'observe' ? 'report' : 'enforce'
  const { default: other = ofPreset, tools = {} } =
    typeof settings === 'string' ? { default: settings } : (settings ?? {})
  const isOff = [other, ...Object.values(tools)].every((one) => one === 'off')
  return isOff ? undefined : { default: other, tools }
}
