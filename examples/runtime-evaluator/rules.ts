// The judge of this example: the first rule that fits decides, and what no rule speaks of is judged as the gateway's
// own policy would.
import type { Decision, EvaluateRequest } from './protocol.js'

export interface Rule {
  /** All that are given must fit; `*` at the end of a tool stands for the rest. */
  readonly when: {
    readonly tenants?: readonly string[]
    readonly tools?: readonly string[]
    readonly roles?: readonly string[]
  }
  readonly decision: Decision
}

export function decide({ context, enforcement, input }: EvaluateRequest, rules: readonly Rule[]): Decision {
  const { roles = [] } = input.attributes
  const rule = rules.find(({ when }) => {
    const { tenants = [context.tenant], tools = [context.tool], roles: wanted = [] } = when
    const isRole =
      wanted.length === 0 || (Array.isArray(roles) && wanted.some((role) => roles.includes(role)))
    return tenants.includes(context.tenant) && tools.some((tool) => fits(tool, context.tool)) && isRole
  })
  if (rule !== undefined) return rule.decision
  const denying = input.reasons.filter((reason) => enforcement.denyOn.includes(reason))
  return denying.length === 0
    ? { action: 'allow' }
    : { action: 'deny', reason: `found: ${denying.join(', ')}`, reasons: denying }
}

function fits(pattern: string, tool: string): boolean {
  return pattern.endsWith('*') ? tool.startsWith(pattern.slice(0, -1)) : tool === pattern
}
