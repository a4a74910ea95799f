// One JSON-RPC message of an MCP server's, redacted.
import type { CallRequest, ErrorCode } from '@svc/core'
import { canonicalize, parseJsonObject, sha256Hex } from '@svc/core/json'
import { redactError, redactResult } from './mcp-result.js'
import { type OutputRule, rulesFor } from './rule.js'

export interface RedactedMessage {
  readonly text: string
  /** SHA-256, hex, of the canonical result; null without one. */
  readonly digest: string | null
  readonly error?: ErrorCode
}

/** The response in `text`; undefined for whatever is none, which then has to be withheld. */
export function redactResponse(
  text: string,
  { method }: CallRequest,
  given: readonly OutputRule[],
): RedactedMessage | undefined {
  const rules = rulesFor(given, text.length)
  const message = parseJsonObject(text)
  if (message === undefined || 'method' in message) return undefined
  const { id = null, result, error } = message
  if (result !== undefined) {
    const shown = rules.reduce<unknown>((left, rule) => redactResult(left, method, rule), result)
    const isError =
      typeof shown === 'object' && shown !== null && 'isError' in shown && shown.isError === true
    return {
      text: JSON.stringify({ jsonrpc: '2.0', id, result: shown }),
      digest: sha256Hex(canonicalize(shown)),
      ...(isError ? { error: 'UPSTREAM' as const } : {}),
    }
  }
  if (error === undefined) return undefined
  const shown = rules.reduce<unknown>((left, rule) => redactError(left, rule), error)
  return { text: JSON.stringify({ jsonrpc: '2.0', id, error: shown }), digest: null, error: 'UPSTREAM' }
}
