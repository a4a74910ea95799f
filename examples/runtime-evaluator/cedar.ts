// Decides by policies in Cedar. A call is allowed if a policy permits it, none forbids it, and none has an error: Cedar skips
// a policy with an error, and a skipped `forbid` would allow the call.
import {
  type CedarValueJson,
  type EntityJson,
  preparsePolicySet,
  statefulIsAuthorized,
} from '@cedar-policy/cedar-wasm/nodejs'
import type { Decision, EvaluateRequest } from './protocol.js'
import { decide } from './rules.js'

const SET = 'policies'

class NotInCedar extends Error {}

/** Throws for policies that cannot be parsed. */
export function cedarDecider(policies: string): (request: EvaluateRequest) => Decision {
  const parsed = preparsePolicySet(SET, { staticPolicies: policies })
  if (parsed.type === 'failure') throw new Error(parsed.errors.map(({ message }) => message).join('; '))
  return (request) => {
    // What the gateway has found still denies.
    const found = decide(request, [])
    return found.action === 'allow' ? byCedar(request) : found
  }
}

function byCedar({ context: { tenant, server, tool }, input: { attributes } }: EvaluateRequest): Decision {
  const [name = ''] = tool.split('@')
  const principal = { type: 'User', id: String(attributes['userId'] ?? attributes['clientId'] ?? '') }
  const resource = { type: 'Tool', id: `${server}/${decodeURIComponent(name)}` }
  const roles = textsIn(attributes['roles']).map((id) => ({ type: 'Role', id }))
  const entities: EntityJson[] = [
    { uid: principal, attrs: {}, parents: roles },
    { uid: resource, attrs: {}, parents: [{ type: 'Server', id: server }] },
  ]
  let args: CedarValueJson
  try {
    args = toCedar(attributes['arguments'] ?? {})
  } catch (error) {
    if (!(error instanceof NotInCedar)) throw error
    return { action: 'deny', reason: error.message }
  }
  const answer = statefulIsAuthorized({
    preparsedPolicySetId: SET,
    principal,
    action: { type: 'Action', id: 'call' },
    resource,
    context: { tenant, arguments: args },
    entities,
  })
  if (answer.type === 'failure') return { action: 'deny', reason: 'the request does not fit Cedar' }
  const { decision, diagnostics } = answer.response
  if (diagnostics.errors.length > 0)
    return { action: 'deny', reason: 'a policy has an error for these arguments' }
  return decision === 'allow'
    ? { action: 'allow' }
    : { action: 'deny', reason: `forbidden by ${diagnostics.reason.join(', ') || 'default'}` }
}

function textsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

/** Cedar's decimals: 64 bits, four digits of which are a fraction. */
const MAX_DECIMAL = 922_337_203_685_477

/**
 * Every number becomes a decimal, so that a condition need not know whether a caller wrote 5 or 5.0. Cedar has no null, and no
 * number with more than four fraction digits: such arguments are denied and not rounded.
 */
function toCedar(value: unknown): CedarValueJson {
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') {
    const arg = value.toFixed(4)
    if (Math.abs(value) < MAX_DECIMAL && Number(arg) === value) return { __extn: { fn: 'decimal', arg } }
    throw new NotInCedar('a number has more digits than a decimal of Cedar')
  }
  if (Array.isArray(value)) return value.map(toCedar)
  if (typeof value !== 'object' || value === null) throw new NotInCedar('Cedar has no null')
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toCedar(member)]))
}
