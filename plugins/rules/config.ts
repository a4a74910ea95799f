// The `rules` section.
import { patternSchema } from '@svc/core/policy'
import { z } from 'zod'

const MAX_RULES = 1000
const MAX_KEPT = 16

const expression = z.string().min(1).optional()

const ruleSchema = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z0-9][\w.-]{0,63}$/, 'expected a name of at most 64 letters, digits, ".", "_" and "-"')
      .describe('Name of the rule: its reason is `rule:<name>`. No two rules have one name.'),
    tools: z
      .array(patternSchema)
      .min(1)
      .optional()
      .describe('Patterns of the tools, prompts and resources that it applies to. Absent: all.'),
    require: expression.describe(
      'Condition in CEL that has to be true. Anything else, an error included, has the effect of `then`.',
    ),
    when: expression.describe(
      'Condition in CEL that has the effect of `then` if it is true, or if it has an error. Without `require` and `when` the rule always has its effect.',
    ),
    // biome-ignore lint/suspicious/noThenProperty: the key of the policy; its value is a text.
    then: z
      .enum(['deny', 'escalate', 'confirm', 'report'])
      .describe(
        '`deny`, `escalate` (the call needs an approval), `confirm` (the person at an MCP client confirms it in a form, which is no approval) or `report`, whatever `enforcement.deny_on` and `escalate_on` say.',
      ),
    ask: z
      .string()
      .min(1)
      .max(300)
      .optional()
      .describe(
        'With `then: confirm`: the question, such as `Delete {size(args.files)} files?`, with values of expressions in braces, quoted. Default: `message`.',
      ),
    else: z
      .enum(['deny', 'escalate'])
      .optional()
      .describe('With `then: confirm`: what happens if the client shows no forms. Default: `deny`.'),
    message: z.string().min(1).max(300).optional().describe('The message for the caller and for reviewers.'),
    keep: z
      .array(z.string().min(1))
      .max(MAX_KEPT)
      .optional()
      .describe('Paths such as `args.amount`, whose values the record keeps if they are single values.'),
    labels: z
      .array(z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/))
      .min(1)
      .optional()
      .describe(
        'Labels for the response of a call on which the rule has its effect, for `protections.flows`.',
      ),
    approval_set_id: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Name of the set in `admin.approval_sets` whose members approve, with `then: escalate`. Default: that of `human_escalation`.',
      ),
  })
  .superRefine((rule, context) => {
    const mistake = (key: string, message: string) =>
      context.addIssue({ code: 'custom', path: [key], message })
    if (rule.require !== undefined && rule.when !== undefined) {
      mistake('when', 'a rule has either require or when; accepted is one of them')
    }
    if (rule.approval_set_id !== undefined && !mayEscalate(rule)) {
      mistake('approval_set_id', 'applies only with then: escalate, or else: escalate')
    }
    for (const key of ['ask', 'else'] as const) {
      if (rule[key] !== undefined && rule.then !== 'confirm') mistake(key, 'applies only with then: confirm')
    }
  })
  .describe('A rule.')

/** Whether calls may need an approval because of the rule. */
export function mayEscalate(rule: { readonly then: string; readonly else?: string | undefined }): boolean {
  return rule.then === 'escalate' || (rule.then === 'confirm' && rule.else === 'escalate')
}

export const rulesSchema = z
  .array(ruleSchema.meta({ entry: 'rule' }))
  .max(MAX_RULES)
  .superRefine((rules, context) => {
    const names = new Set<string>()
    for (const [index, { name }] of rules.entries()) {
      const message = `another rule is named "${name}"; accepted is a name of its own`
      if (names.has(name)) context.addIssue({ code: 'custom', path: [index, 'name'], message })
      names.add(name)
    }
  })
  .describe('Conditions on calls. Every rule that matches a call is judged; deny comes before escalate.')

export type RulesConfig = z.output<typeof rulesSchema>
export type RuleConfig = RulesConfig[number]
