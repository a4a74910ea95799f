// The key `definitions`.
import { z } from 'zod'
import type { ProtectionPreset } from '../shared/protection.js'

export const definitionsSchema = z
  .strictObject({
    effect: z
      .enum(['off', 'report', 'withhold'])
      .optional()
      .describe(
        'What happens to a definition that is not pinned: `report`, or `withhold`, which removes it from lists and refuses calls of the tool. Default: by the preset; `withhold` without one.',
      ),
    trust: z
      .enum(['first_use', 'scan', 'accept'])
      .optional()
      .describe(
        'The first definition of a tool that no lock file names: `first_use` pins it, `scan` pins it if the rules of `text` find nothing in it, with `accept` it waits until somebody accepts it. Default: `first_use` in the preset `observe`, else `accept`.',
      ),
    lock: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Lock file with known definitions, as `npx svc-sdk tools lock` writes it. A definition that is not in it waits, if it is of a server in it.',
      ),
  })
  .describe(
    'Definitions of tools, prompts and resource templates, and instructions of servers, that are known.',
  )

export type DefinitionsSettings = z.output<typeof definitionsSchema>

export interface DefinitionsConfig {
  readonly effect: 'report' | 'withhold'
  readonly trust: 'first_use' | 'scan' | 'accept'
  readonly lock: string | undefined
}

export function definitionsConfig(
  settings: DefinitionsSettings | undefined,
  preset: ProtectionPreset | undefined,
): DefinitionsConfig | undefined {
  if (settings === undefined && preset === undefined) return undefined
  const isObserving = preset === 'observe'
  const { effect = isObserving ? 'report' : 'withhold', trust, lock } = settings ?? {}
  if (effect === 'off') return undefined
  return { effect, trust: trust ?? (isObserving ? 'first_use' : 'accept'), lock }
}
