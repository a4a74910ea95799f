// Inspects the params of a guarded method beside its arguments: each is judged, hashed and fingerprinted, or refused.
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { invalidParams } from './mcp-refusal.js'
import { META_EMERGENCY, META_ESCALATION_ID, META_IDEMPOTENCY_KEY } from './protocol.js'

/** The params that a method knows. */
export interface ParamNames {
  /** Params that name the call or are its arguments. */
  readonly own: readonly string[]
  /** The method's other params. */
  readonly others: readonly string[]
}

/** Length of the text that `_meta` may carry without being judged. */
const maxUnjudged = 8192

/** Members of `_meta` that differ between repeats of one call and say nothing of what it does. */
const unjudgedMeta: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  progressToken: (value) => typeof value === 'number' || isShortText(value),
  traceparent: isShortText,
  tracestate: isShortText,
  baggage: isShortText,
  [META_IDEMPOTENCY_KEY]: isShortText,
  [META_ESCALATION_ID]: isShortText,
  [META_EMERGENCY]: isShortText,
}

/**
 * The `params` that go upstream beside the method's own; undefined if there are none. Throws `McpRefusal` for params that
 * neither the method nor `passParams` names.
 */
export function inspectedParams(
  params: JsonObject,
  names: ParamNames,
  passParams: readonly string[],
): JsonObject | undefined {
  const judged: [string, JsonValue][] = []
  for (const [name, value] of Object.entries(params)) {
    if (names.own.includes(name)) continue
    if (name === '_meta') {
      const meta = judgedMeta(value)
      if (meta !== undefined) judged.push([name, meta])
      continue
    }
    if (!names.others.includes(name) && !passParams.includes(name)) {
      throw invalidParams(
        'params: a member that the method does not know; server.mcp.pass_params may name it.',
      )
    }
    judged.push([name, value])
  }
  return judged.length === 0 ? undefined : Object.fromEntries(judged)
}

function judgedMeta(meta: JsonValue): JsonObject | undefined {
  if (!isJsonObject(meta)) throw invalidParams('_meta: expected an object.')
  const judged = Object.entries(meta).filter(([name, value]) => {
    const isUnjudged = Object.hasOwn(unjudgedMeta, name) ? unjudgedMeta[name] : undefined
    if (isUnjudged === undefined) return true
    if (!isUnjudged(value)) throw invalidParams(`_meta["${name}"]: expected text of its kind.`)
    return false
  })
  return judged.length === 0 ? undefined : Object.fromEntries(judged)
}

function isShortText(value: JsonValue): boolean {
  return typeof value === 'string' && value.length <= maxUnjudged
}
