// The first matching rule decides; without one, `deny_on` of the gateway decides, as it would without a runtime.
import type { Decision, EvaluateRequest } from './protocol.js'

export interface Rule {
  /** All given conditions must match; `*` at the end of a tool matches any rest. */
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
    return tenants.includes(context.tenant) && tools.some((tool) => matches(tool, context.tool)) && isRole
  })
  if (rule !== undefined) return rule.decision
  const denying = input.reasons.filter((reason) => enforcement.denyOn.includes(reason))
  return denying.length === 0
    ? { action: 'allow' }
    : { action: 'deny', reason: `found: ${denying.join(', ')}`, reasons: denying }
}

function matches(pattern: string, tool: string): boolean {
  return pattern.endsWith('*') ? tool.startsWith(pattern.slice(0, -1)) : tool === pattern
}
