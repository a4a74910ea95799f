// Creates an escalation: the data of a waiting call that reviewers see, redacted if the policy requires it.
import {
  type Call,
  type CallRequest,
  callerNameOf,
  type EscalationRule,
  type Ids,
  personKeyOf,
  redactor,
  sideEffectSource,
  sideEffects,
  sideEffectsOf,
} from '@svc/core'
import { defined, sha256Hex } from '@svc/core/json'
import type { EscalatedCall } from './escalated-call.js'
import { hashesOfNames } from './person.js'
import type { NewEscalation } from './repository.js'
import { shownValues } from './shown-values.js'
import { decided, type StoredEscalation } from './stored-escalation.js'

/** Characters of the arguments that reviewers see. */
const MAX_SHOWN_ARGS = 2000
/** Characters of the agent's reason. */
const MAX_REASON = 1000

interface OpeningContext {
  readonly rule: EscalationRule
  readonly ids: Ids
  readonly now: number
  readonly policySha256: string | null
}

/** The escalation that reviewers decide on, with its input. */
export function newEscalation(
  escalated: EscalatedCall,
  { rule, ids, now, policySha256 }: OpeningContext,
): NewEscalation {
  const { call, request, caller, fingerprint, input, findings, reasons, wanted, setId, emergency } = escalated
  const { showsArguments, severity, isForRulingsAlone: _, approvalSetId: __, ...kept } = rule
  const id = `esc_${ids.traceId()}`
  const redacts = call.get(redactor)
  const { agentRef, metadata } = call.agent
  const agentReason = typeof metadata?.['reason'] === 'string' ? metadata['reason'] : undefined
  const name = callerNameOf(caller)
  const principalKind = caller.user === undefined && caller.clientId !== undefined ? 'client' : 'user'
  const shown = showsArguments ? (redacts?.text(input) ?? input) : undefined
  const isTruncated = shown !== undefined && shown.length > MAX_SHOWN_ARGS
  const reads = findings.flatMap(({ approval }) => approval?.reads ?? [])
  const detail = findings.flatMap((finding) => finding.detail ?? []).join('; ')
  const value: StoredEscalation = {
    id,
    fingerprint,
    tenant: caller.tenant,
    server: request.server,
    tool: request.name,
    reference: request.reference,
    ...(shown === undefined ? {} : { args: preview(shown), values: shownValues(shown, reads) }),
    inputSha256: sha256Hex(input),
    ...(isTruncated ? { wholeSha256: sha256Hex(shown) } : {}),
    principal: name === undefined ? 'anonymous' : (redacts?.pseudonym(name) ?? name),
    ...(name === undefined ? {} : { principalKind }),
    ...(agentRef === null ? {} : { agent: redacts?.text(agentRef) ?? agentRef }),
    personKey: personKeyOf(caller),
    caller: hashesOfNames(id, caller),
    reasons,
    ...(wanted.every((one) => reasons.includes(one)) ? {} : { covers: wanted }),
    ...(detail === '' ? {} : { detail: redacts?.text(detail) ?? detail }),
    opening: {
      stage: findings[0].stage,
      ...(policySha256 === null ? {} : { policySha256 }),
      ...(agentReason === undefined
        ? {}
        : { agentReason: redactedBy(call, agentReason).slice(0, MAX_REASON).toWellFormed() }),
      severityReason: severity === undefined ? effectsOf(call, request) : 'set by the policy',
    },
    severity: severity ?? (sideEffectsOf(request, call.get(sideEffects)) === 'harmless' ? 'medium' : 'high'),
    rule: { ...kept, ...defined({ approvalSetId: setId }) },
    status: 'pending',
    votes: [],
    traceId: call.trace.traceId,
    spanId: call.trace.spanId,
    createdAt: now,
    expiresAt: now + rule.ttlMs,
  }
  if (emergency !== undefined) {
    const reason = redactedBy(call, emergency)
    const begun = { ...decided(value, 'approved', now), decidedBy: 'emergency' } as const
    return {
      value: { ...begun, emergency: { reason, review: 'open' } },
      input: isTruncated ? shown : undefined,
    }
  }
  return rule.strategy === 'auto_allow'
    ? { value: { ...decided(value, 'approved', now), decidedBy: 'strategy' }, input: undefined }
    : { value, input: isTruncated ? shown : undefined }
}

/** Whether the call has side effects, and what says so. */
function effectsOf(call: Call, request: CallRequest): string {
  const knowledge = call.get(sideEffects)
  const effects = sideEffectsOf(request, knowledge)
  if (effects === 'unknown')
    return 'unknown side effects: neither the policy, an annotation nor its name says whether it has any'
  const found = effects === 'effect' ? 'may have side effects' : 'has no side effects'
  return request.kind === 'tool' ? `${found}, by ${sources[sideEffectSource(request, knowledge)]}` : found
}

const sources = {
  policy: 'side_effects.tools of the policy',
  annotations: "its server's annotations",
  name: 'its name and method',
} as const

function redactedBy(call: Call, text: string): string {
  return call.get(redactor)?.text(text) ?? text
}

/** The beginning of the input; a cut text ends with `…`, with which no JSON ends. */
function preview(shown: string): string {
  return shown.length <= MAX_SHOWN_ARGS ? shown : `${shown.slice(0, MAX_SHOWN_ARGS).toWellFormed()}…`
}
