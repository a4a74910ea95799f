// The request and response bodies of the runtime protocol. docs/runtime.openapi.yaml documents them; a test compares both.
import type { Evaluation, EvaluationRequest, Obligation } from '@svc/core'
import {
  defined,
  isJsonObject,
  JsonInputError,
  type JsonObject,
  type JsonValue,
  parseJson,
  parseJsonObject,
} from '@svc/core/json'
import { z } from 'zod'
import { EvaluationError } from '../evaluation/error.js'

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

/** Strict, because an unknown member may be a condition that this version would ignore. */
export const responseSchema = z.strictObject({
  protocolVersion: z.string(),
  decision: decisionSchema,
  metadata: z.record(z.string(), z.unknown()).optional(),
})

export function wireRequest(request: EvaluationRequest, protocolVersion: string) {
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
      ...defined({ nodeId, runId }),
    },
    enforcement: { mode, strategy: 'deny_on_match', denyOn },
    input: { reasons, riskTags, attributes },
  }
}

/**
 * The decision of a response with status 200.
 *
 * @throws {EvaluationError} if the body neither holds one valid decision in the requested protocol version nor one
 *   against the call that can be read.
 */
export function parseResponse(bytes: Uint8Array, protocolVersion: string): Evaluation {
  try {
    return parseValid(bytes, protocolVersion)
  } catch (error) {
    const denial = error instanceof EvaluationError ? readableDenial(bytes) : undefined
    if (denial !== undefined) return denial
    throw error
  }
}

function parseValid(bytes: Uint8Array, protocolVersion: string): Evaluation {
  const value = parseBody(bytes)
  // Checked first: another version may have another structure, and the version is the clearer error.
  const version = isJsonObject(value) ? value['protocolVersion'] : undefined
  if (typeof version === 'string' && version !== protocolVersion) {
    throw new EvaluationError(`the runtime does not support protocol version ${protocolVersion}`, 'invalid')
  }
  const response = responseSchema.safeParse(value)
  if (response.success) return evaluationOf(response.data.decision)
  const [issue] = response.error.issues
  const at = issue === undefined || issue.path.length === 0 ? '' : ` at ${issue.path.map(String).join('.')}`
  throw new EvaluationError(`the runtime's response does not match the schema${at.slice(0, 100)}`, 'invalid')
}

function evaluationOf({ action, reason, reasons, obligations }: z.output<typeof decisionSchema>): Evaluation {
  return {
    action,
    ...defined({ reason, reasons }),
    ...(obligations === undefined
      ? {}
      : {
          obligations: obligations.map(({ type, params }) => ({
            type,
            // The schema accepts any values here; they were parsed from JSON.
            ...(params === undefined ? {} : { params: params as JsonObject }),
          })),
        }),
  }
}

function parseBody(bytes: Uint8Array): JsonValue {
  try {
    return parseJson(bytes)
  } catch (error) {
    // Without the cause, whose message may quote the response.
    if (error instanceof JsonInputError)
      throw new EvaluationError("the runtime's response is not valid JSON", 'invalid')
    throw error
  }
}

/** The actions, the strictest first. */
const actions = ['deny', 'clarify', 'escalate'] as const

/**
 * The action at any place and in any case. Inside a JSON string the quotes are escaped, so that a quoted argument does
 * not match.
 */
const actionMember = /"action"\s*:\s*"\s*(deny|clarify|escalate)\s*"/gi

const maxReasonLength = 1024

/**
 * The strictest decision that any reader could find; undefined if there is none or it is `allow`. An escalation whose
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
  const given = parseJsonObject(text)?.['decision']
  const decision = isJsonObject(given) ? given : undefined
  const reason = decision?.['reason']
  const obligations = decision?.['obligations'] ?? []
  const isReadable = decision !== undefined && areObligations(obligations)
  return {
    action: action === 'escalate' && !isReadable ? 'deny' : action,
    ...(typeof reason === 'string' ? { reason: truncated(reason) } : {}),
    ...(action === 'escalate' && isReadable ? { obligations } : {}),
  }
}

function truncated(reason: string): string {
  // The text without half of a surrogate pair.
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
