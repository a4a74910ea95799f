// The key `flows`.
import { patternSchema } from '@svc/core/policy'
import { z } from 'zod'

const label = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,31}$/, 'expected at most 32 lower-case letters, digits, "_" and "-"')

/** Conditions on the content of a response, which then gets the label. */
export const labelDetectors = ['secret', 'personal_data', 'attack'] as const

const flow = z
  .string()
  .regex(
    /^\s*[a-z][a-z0-9_-]*\s*(?:->|→)\s*[a-z][a-z0-9_-]*\s*$/,
    'expected a label, -> and a sink, such as "private -> external"',
  )
  .transform((text) => {
    const [from = '', to = ''] = text.split(/->|→/).map((name) => name.trim())
    return { from, to }
  })

export const flowsSchema = z
  .strictObject({
    labels: z
      .array(
        z
          .strictObject({
            label,
            tools: z.array(patternSchema).min(1).optional().describe('Patterns of what returns such data.'),
            detector: z
              .enum(labelDetectors)
              .optional()
              .describe(
                'Only responses in which this is found: `secret`, `personal_data`, or an `attack` on the model.',
              ),
          })
          .refine(
            ({ tools, detector }) => tools !== undefined || detector !== undefined,
            'needs tools, a detector, or both',
          ),
      )
      .default([])
      .describe('Labels for what calls return. A rule of `rules` gives them by its own key `labels`.'),
    sinks: z
      .record(label, z.array(patternSchema).min(1))
      .default({})
      .describe(
        'Names for tools to which labelled data must not go. `side_effecting` is one without patterns.',
      ),
    deny_flow: z
      .array(flow)
      .min(1)
      .describe('A label and a sink: a caller with the label may not use the sink.'),
    effect: z
      .enum(['report', 'escalate', 'deny'])
      .default('escalate')
      .describe('The effect on such a call: `escalate` needs an approval.'),
    approval_set_id: z.string().min(1).optional().describe('The set that approves, with `effect: escalate`.'),
    unit: z
      .enum(['principal', 'user', 'client', 'tenant', 'claim'])
      .default('principal')
      .describe(
        'Who has a label: the person at one client, the person, the client, the tenant, or all whose tokens have the same `authn.oidc.unitClaim`.',
      ),
    for_seconds: z.int().min(1).max(2_592_000).default(3600).describe('How long a caller has a label.'),
  })
  .superRefine(({ sinks, deny_flow }, context) => {
    for (const [index, { to }] of deny_flow.entries()) {
      if (to !== SIDE_EFFECTING && !Object.hasOwn(sinks, to))
        context.addIssue({ code: 'custom', path: ['deny_flow', index], message: `sinks has no "${to}"` })
    }
    if (Object.hasOwn(sinks, SIDE_EFFECTING))
      context.addIssue({
        code: 'custom',
        path: ['sinks', SIDE_EFFECTING],
        message: 'is the sink of all tools with side effects',
      })
  })
  .describe('The calls that callers with labelled data may not make.')

/** The sink of all calls with side effects. */
export const SIDE_EFFECTING = 'side_effecting'

export type FlowsConfig = z.output<typeof flowsSchema>
