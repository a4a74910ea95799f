// The members of the two messages that this example uses, as in docs/runtime.openapi.yaml.

export const PROTOCOL_VERSION = '2026-02-01'

export interface EvaluateRequest {
  readonly protocolVersion: string
  readonly requestId: string
  readonly context: { readonly tenant: string; readonly server: string; readonly tool: string }
  readonly enforcement: { readonly denyOn: readonly string[] }
  readonly input: {
    readonly reasons: readonly string[]
    readonly attributes: Readonly<Record<string, unknown>>
  }
}

export interface Decision {
  readonly action: 'allow' | 'deny' | 'escalate' | 'clarify'
  readonly reason?: string
  readonly reasons?: readonly string[]
  readonly obligations?: readonly {
    readonly type: string
    readonly params?: Readonly<Record<string, unknown>>
  }[]
}

/** Undefined for a text that is not a request of this version. */
export function requestIn(text: string): EvaluateRequest | undefined {
  const value = parsed(text)
  if (!isObject(value) || value['protocolVersion'] !== PROTOCOL_VERSION) return undefined
  const { requestId, context, enforcement, input } = value
  if (typeof requestId !== 'string' || !isObject(context) || !isObject(enforcement) || !isObject(input)) {
    return undefined
  }
  const { tenant, server, tool } = context
  const { denyOn } = enforcement
  const { reasons, attributes } = input
  if (typeof tenant !== 'string' || typeof server !== 'string' || typeof tool !== 'string') return undefined
  if (!isTexts(denyOn) || !isTexts(reasons) || !isObject(attributes)) return undefined
  return {
    protocolVersion: PROTOCOL_VERSION,
    requestId,
    context: { tenant, server, tool },
    enforcement: { denyOn },
    input: { reasons, attributes },
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
