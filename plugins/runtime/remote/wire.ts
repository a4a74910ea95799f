// The two messages of the protocol (decisions.md §5). docs/runtime.openapi.yaml describes them for runtimes; a test
// holds both together.
import type { Evaluation, EvaluationRequest } from '@svc/core'
import { JsonInputError, type JsonObject, type JsonValue, parseJson } from '@svc/core/json'
import { z } from 'zod'
import { EvaluationFault } from '../fault.js'

const token = z.string().min(1).max(128)

const obligationSchema = z.strictObject({
  type: token,
  params: z.record(z.string(), z.unknown()).optional(),
})

const decisionSchema = z.strictObject({
  action: z.enum(['allow', 'deny', 'escalate', 'clarify']),
  reason: z.string().max(1024).optional(),
  reasons: z.array(token).max(32).optional(),
  obligations: z.array(obligationSchema).max(32).optional(),
  auditRefs: z.array(z.string().max(1024)).max(32).optional(),
})

/** Strict: a member that this version does not know may be a condition that it would not heed. */
export const answerSchema = z.strictObject({
  protocolVersion: z.string(),
  decision: decisionSchema,
  metadata: z.record(z.string(), z.unknown()).optional(),
})

/** As it travels. */
export interface WireRequest {
  readonly protocolVersion: string
  readonly requestId: string
  readonly context: {
    readonly integrationSurface: 'svc-sdk'
    readonly executionLayer: 'gateway'
    readonly tenant: string
    readonly server: string
    readonly tool: string
    readonly nodeId?: string
    readonly runId?: string
  }
  readonly enforcement: {
    readonly mode: 'observe' | 'enforce'
    readonly strategy: 'deny_on_match'
    readonly denyOn: readonly string[]
  }
  readonly input: {
    readonly reasons: readonly string[]
    readonly riskTags: readonly string[]
    readonly attributes: JsonObject
  }
}

export function wireRequest(request: EvaluationRequest, protocolVersion: string): WireRequest {
  const { requestId, tenant, server, tool, nodeId, runId, mode, denyOn, reasons, riskTags, attributes } =
    request
  return {
    protocolVersion,
    requestId,
    context: {
      integrationSurface: 'svc-sdk',
      executionLayer: 'gateway',
      tenant,
      server,
      tool,
      ...(nodeId === undefined ? {} : { nodeId }),
      ...(runId === undefined ? {} : { runId }),
    },
    enforcement: { mode, strategy: 'deny_on_match', denyOn },
    input: { reasons, riskTags, attributes },
  }
}

/** Throws `EvaluationFault` for anything but one decision in the version that was asked in. */
export function readAnswer(bytes: Uint8Array, protocolVersion: string): Evaluation {
  const value = jsonIn(bytes)
  // Another version may have another shape: that is then the lesser fault.
  const spoken = isObject(value) ? value['protocolVersion'] : undefined
  if (typeof spoken === 'string' && spoken !== protocolVersion) {
    throw new EvaluationFault(
      `the runtime does not speak the protocol version ${protocolVersion}`,
      'unusable',
    )
  }
  const answer = answerSchema.safeParse(value)
  if (answer.success) return evaluationOf(answer.data.decision)
  const [issue] = answer.error.issues
  const at = issue === undefined || issue.path.length === 0 ? '' : ` at ${issue.path.map(String).join('.')}`
  throw new EvaluationFault(
    `the runtime's answer is not of the protocol's shape${at.slice(0, 100)}`,
    'unusable',
  )
}

function evaluationOf({ action, reason, reasons, obligations }: z.output<typeof decisionSchema>): Evaluation {
  return {
    action,
    ...(reason === undefined ? {} : { reason }),
    ...(reasons === undefined ? {} : { reasons }),
    ...(obligations === undefined
      ? {}
      : {
          obligations: obligations.map(({ type, params }) => ({
            type,
            // It was parsed from JSON.
            ...(params === undefined ? {} : { params: params as JsonObject }),
          })),
        }),
  }
}

function jsonIn(bytes: Uint8Array): JsonValue {
  try {
    return parseJson(bytes)
  } catch (fault) {
    // The message may quote the answer.
    if (fault instanceof JsonInputError)
      throw new EvaluationFault("the runtime's answer is not JSON", 'unusable')
    throw fault
  }
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
