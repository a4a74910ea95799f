// What a runtime is told of a call: who calls what, and what was found. Arguments only where the policy says so, and
// people by their pseudonyms where it redacts them.
import {
  type Call,
  type CallRequest,
  type DenyRule,
  type EvaluationRequest,
  type Finding,
  identity,
  isSideEffecting,
  type Redactor,
  redactor,
  sideEffects,
} from '@svc/core'
import { type JsonObject, sha256Hex } from '@svc/core/json'
import { formatToolSegment } from '@svc/core/match'

export interface QuestionRule {
  /** The policy's own. */
  readonly rule: DenyRule
  /** Tenant of calls that no token attributes. */
  readonly tenant: string
  readonly includeArguments: boolean
}

export function questionOf(call: Call, request: CallRequest, about: QuestionRule): EvaluationRequest {
  const { rule, tenant } = about
  const { agent, trace, findings } = call
  const reasons = [...new Set(findings.map(({ reason }) => reason))]
  return {
    requestId: `${trace.traceId}-${trace.spanId}`,
    tenant: call.get(identity)?.tenant ?? tenant,
    server: request.server,
    tool: formatToolSegment({ tool: request.name, version: request.version }),
    ...(agent.nodeId === null ? {} : { nodeId: agent.nodeId }),
    ...(agent.agentRef === null ? {} : { runId: agent.agentRef }),
    mode: rule.mode,
    // A runtime that only matches then comes to the verdict that the policy would.
    denyOn: rule.denyOn ?? reasons,
    reasons,
    riskTags: reasons,
    attributes: attributesOf(call, request, about),
  }
}

function attributesOf(call: Call, request: CallRequest, { includeArguments }: QuestionRule): JsonObject {
  const caller = call.get(identity)
  const redacts = call.get(redactor)
  const named = (name: string): string => redacts?.pseudonym(name) ?? name
  return {
    protocol: call.protocol,
    kind: request.kind,
    reference: request.reference,
    ...(request.method === null ? {} : { method: request.method }),
    authenticated: caller?.authenticated ?? false,
    ...(caller?.user === undefined ? {} : { user: named(caller.user) }),
    ...(caller?.userId === undefined ? {} : { userId: named(caller.userId) }),
    ...(caller?.clientId === undefined ? {} : { clientId: named(caller.clientId) }),
    roles: [...(caller?.roles ?? [])],
    sideEffecting: isSideEffecting(request, call.get(sideEffects)),
    hasIdempotencyKey: request.idempotencyKey !== null,
    findings: call.findings.map((finding) => told(finding, redacts)),
    inputSha256: sha256Hex(request.canonicalArgs),
    ...(includeArguments ? { arguments: request.args } : {}),
  }
}

function told({ reason, stage, level, detail }: Finding, redacts: Redactor | undefined): JsonObject {
  return {
    reason,
    stage,
    ...(level === undefined ? {} : { level }),
    ...(detail === undefined ? {} : { detail: redacts?.text(detail) ?? detail }),
  }
}
