// Finds a decision against the call in a response that does not match the schema. A caller may cause the mismatch, for
// example with an argument that the runtime quotes in its reason, and must not get rid of the decision by it.
import type { Evaluation, Obligation } from '@svc/core'
import { isJsonObject } from '@svc/core/json'

/** The strictest first. */
const actions = ['deny', 'clarify', 'escalate'] as const

/** In any place and case. Inside a JSON string the quotes are escaped, so that a quoted argument does not match. */
const actionMember = /"action"\s*:\s*"\s*(deny|clarify|escalate)\s*"/gi

const maxReasonLength = 1024

/**
 * The strictest decision that any reader could find; undefined where there is none or it is `allow`. An escalation whose
 * obligations cannot be read is a denial, because an approved call would be sent without them.
 */
export function readableDenial(bytes: Uint8Array): Evaluation | undefined {
  const text = Buffer.from(bytes).toString('utf8')
  const unescaped = text.replaceAll(/\\u([0-9a-f]{4})/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
  const found = [...unescaped.matchAll(actionMember)].map(([, action]) => action?.toLowerCase())
  const action = actions.find((one) => found.includes(one))
  if (action === undefined) return undefined
  const value = lenientlyParsed(text)
  const decision = isJsonObject(value) && isJsonObject(value['decision']) ? value['decision'] : undefined
  const reason = decision?.['reason']
  const obligations = decision?.['obligations'] ?? []
  const isReadable = decision !== undefined && areObligations(obligations)
  return {
    action: action === 'escalate' && !isReadable ? 'deny' : action,
    ...(typeof reason === 'string' ? { reason: truncated(reason) } : {}),
    ...(action === 'escalate' && isReadable ? { obligations } : {}),
  }
}

/** Undefined for text that is not JSON; the last of duplicate members otherwise. */
function lenientlyParsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function truncated(reason: string): string {
  // Without half of a surrogate pair.
  return reason.slice(0, maxReasonLength).replace(/[\ud800-\udbff]$/, '')
}

function areObligations(value: unknown): value is Obligation[] {
  return Array.isArray(value) && value.every(isObligation)
}

function isObligation(value: unknown): boolean {
  if (!isJsonObject(value)) return false
  const { type, params } = value
  return typeof type === 'string' && (params === undefined || isJsonObject(params))
}
