// Builds the evaluation request of a call. It holds arguments only if the policy allows it, and pseudonyms in place
// of identities if the policy redacts them.
import {
  type Call,
  type CallRequest,
  canonicalInput,
  type DenyRule,
  type EvaluationRequest,
  type Finding,
  identity,
  isSideEffecting,
  type Redactor,
  redactor,
  sideEffects,
} from '@svc/core'
import { defined, type JsonObject, sha256Hex } from '@svc/core/json'

export interface RequestOptions {
  /** The policy's `enforcement` rule. */
  readonly rule: DenyRule
  /** Tenant of calls without an identity. */
  readonly tenant: string
  readonly includeArguments: boolean
}

export function evaluationRequest(
  call: Call,
  request: CallRequest,
  options: RequestOptions,
): EvaluationRequest {
  const { rule, tenant } = options
  const { agent, trace, findings } = call
  const reasons = [...new Set(findings.map(({ reason }) => reason))]
  return {
    requestId: `${trace.traceId}-${trace.spanId}`,
    tenant: call.get(identity)?.tenant ?? tenant,
    server: request.server,
    // The parts are valid, as the reference was built from them. A resource's URI is not a valid name of a tool.
    tool: `${encodeURIComponent(request.name)}@${request.version}`,
    ...(agent.nodeId === null ? {} : { nodeId: agent.nodeId }),
    ...(agent.agentRef === null ? {} : { runId: agent.agentRef }),
    mode: rule.mode,
    // With every reason in both lists, a runtime that only matches them decides as the policy would.
    denyOn: rule.denyOn ?? reasons,
    reasons,
    riskTags: reasons,
    attributes: attributesOf(call, request, options),
  }
}

function attributesOf(call: Call, request: CallRequest, { includeArguments }: RequestOptions): JsonObject {
  const caller = call.get(identity)
  const redacts = call.get(redactor)
  const redactedName = (name: string): string => redacts?.pseudonym(name) ?? name
  return {
    protocol: call.protocol,
    kind: request.kind,
    reference: request.reference,
    ...(request.method === null ? {} : { method: request.method }),
    authenticated: caller?.authenticated ?? false,
    ...(caller?.user === undefined ? {} : { user: redactedName(caller.user) }),
    ...(caller?.userId === undefined ? {} : { userId: redactedName(caller.userId) }),
    ...(caller?.clientId === undefined ? {} : { clientId: redactedName(caller.clientId) }),
    roles: [...(caller?.roles ?? [])],
    sideEffecting: isSideEffecting(request, call.get(sideEffects)),
    hasIdempotencyKey: request.idempotencyKey !== null,
    findings: call.findings.map((finding) => redactedFinding(finding, redacts)),
    inputSha256: sha256Hex(canonicalInput(request)),
    ...(includeArguments ? { arguments: request.args } : {}),
    ...(includeArguments && request.params !== undefined ? { params: request.params } : {}),
  }
}

function redactedFinding(
  { reason, stage, level, detail }: Finding,
  redacts: Redactor | undefined,
): JsonObject {
  return {
    reason,
    stage,
    ...defined({ level }),
    ...(detail === undefined ? {} : { detail: redacts?.text(detail) ?? detail }),
  }
}
