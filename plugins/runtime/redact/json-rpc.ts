// Redacts one JSON-RPC response.
import type { CallRequest, ErrorCode } from '@svc/core'
import { canonicalize, parseJsonObject, sha256Hex } from '@svc/core/json'
import { redactError, redactResult } from './mcp-result.js'
import { type OutputRule, rulesFor } from './rule.js'

export interface RedactedResponse {
  readonly text: string
  /** SHA-256, hex, of the canonical result; null for an error. */
  readonly digest: string | null
  readonly error?: ErrorCode
}

/** Undefined where `text` is not a JSON-RPC response; the caller must then remove it. */
export function redactResponse(
  text: string,
  { method }: CallRequest,
  requested: readonly OutputRule[],
): RedactedResponse | undefined {
  const rules = rulesFor(requested, text.length)
  const message = parseJsonObject(text)
  if (message === undefined || 'method' in message) return undefined
  const { id = null, result, error } = message
  if (result !== undefined) {
    const redacted = rules.reduce<unknown>((value, rule) => redactResult(value, method, rule), result)
    const isError =
      typeof redacted === 'object' && redacted !== null && 'isError' in redacted && redacted.isError === true
    return {
      text: JSON.stringify({ jsonrpc: '2.0', id, result: redacted }),
      digest: sha256Hex(canonicalize(redacted)),
      ...(isError ? { error: 'UPSTREAM' as const } : {}),
    }
  }
  if (error === undefined) return undefined
  const redacted = rules.reduce<unknown>((value, rule) => redactError(value, rule), error)
  return { text: JSON.stringify({ jsonrpc: '2.0', id, error: redacted }), digest: null, error: 'UPSTREAM' }
}
