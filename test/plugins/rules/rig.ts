// A stage of rules with values of `vars`, and the values of expressions by themselves.
import { type PluginContext, type ToolAnnotations, tokens } from '@svc/core'
import { rulesPlugin } from '@svc/plugin-rules'
import {
  CallScope,
  compileExpression,
  Failure,
  type Variables,
} from '@svc/plugin-rules/internal/engine/index'
import { bindPolicy, type PolicyValues } from '../../support/check.js'
import { StageRig } from '../../support/stage-rig.js'

export const vars = { max: 100, names: ['a', 'b'], numbers: [1, 2], word: 'x', on: true }

export function variables(args: unknown, others: Partial<Variables> = {}): Variables {
  return {
    args: args as Variables['args'],
    params: {},
    caller: { sub: 'u-1', tenant: 'acme', client: 'cli', roles: ['support'], scopes: ['read'] },
    claimed: {},
    tool: { server: 'billing', name: 'refund', version: '1', side_effecting: true },
    call: { time: new Date('2026-11-23T08:30:00Z'), protocol: 'mcp', method: 'tools/call' },
    vars,
    ...others,
  }
}

/** The value of the expression, or `error: why` if it has none. */
export function valueFor(source: string, args: unknown = {}, others: Partial<Variables> = {}): unknown {
  const value = compileExpression(source, { vars }).evaluate(variables(args, others), new CallScope())
  return value instanceof Failure ? `error: ${value.message}` : value
}

export async function rulesRig(
  section: object,
  policy: PolicyValues = {},
  context: Partial<PluginContext> = {},
  annotations?: ToolAnnotations,
) {
  const rig = new StageRig(context)
  if (annotations !== undefined) rig.bind(tokens.ToolAnnotations, annotations)
  bindPolicy(rig.context.container, { host: { vars }, ...policy })
  return { rig, stage: await rig.start(rulesPlugin, section) }
}
