// The key `text` of the section `protections`.
import { z } from 'zod'
import type { ProtectionPreset } from '../shared/protection.js'
import { type TextRole, textRules } from './rules.js'

export const textSchema = z
  .strictObject({
    definitions: z
      .enum(['off', 'report', 'withhold'])
      .optional()
      .describe('The effect on a tool, prompt, template or instructions whose text attacks the model.'),
    results: z
      .enum(['off', 'report', 'strip', 'withhold'])
      .optional()
      .describe(
        'What happens to a response whose text does: its lines are removed, or the response is refused.',
      ),
    arguments: z
      .enum(['off', 'report', 'deny'])
      .optional()
      .describe('The effect on a call with a secret or a disguised command in its arguments.'),
    disable: z.array(z.string()).default([]).describe('Rules that are not used, by their ids.'),
  })
  .superRefine(({ disable }, context) => {
    for (const [index, id] of disable.entries()) {
      if (!textRules().some((rule) => rule.id === id))
        context.addIssue({ code: 'custom', path: ['disable', index], message: `no rule has the id "${id}"` })
    }
  })
  .describe('Text that attacks the model, and secrets on their way out.')

export interface TextConfig {
  readonly effects: Readonly<Record<TextRole, TextEffect>>
  readonly disabled: ReadonlySet<string>
}

export type TextEffect = 'off' | 'report' | 'strip' | 'withhold' | 'deny'

const presets: Readonly<Record<ProtectionPreset, TextConfig['effects']>> = {
  observe: { definition: 'report', result: 'report', argument: 'report' },
  guard: { definition: 'withhold', result: 'strip', argument: 'deny' },
}

/** A finding with neither a key of its own nor a preset is reported. */
export function textConfig(
  settings: z.output<typeof textSchema> | undefined,
  preset: ProtectionPreset | undefined,
): TextConfig {
  const { definition, result, argument } = presets[preset ?? 'observe']
  return {
    effects: {
      definition: settings?.definitions ?? definition,
      result: settings?.results ?? result,
      argument: settings?.arguments ?? argument,
    },
    disabled: new Set(settings?.disable),
  }
}
