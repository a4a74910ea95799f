// The rules of a decision as changes of a response. A match of a pattern may span several events of a plain stream; on an
// MCP stream progress, log messages and requests of the server may contain what is redacted in the response: both are removed.
import type { ResponseRewriter } from '@svc/core/response'
import { redactError, redactResult } from './mcp-result.js'
import { type OutputRule, redactJson, redactText, rulesFor } from './rule.js'

export function rewriterOf(rules: readonly OutputRule[]): ResponseRewriter {
  const apply = <T>(size: number, value: T, redact: (value: T, rule: OutputRule) => T): T =>
    rulesFor(rules, size).reduce((result, rule) => redact(result, rule), value)
  return {
    result: (result, method, size) => apply(size, result, (value, rule) => redactResult(value, method, rule)),
    error: (error, size) => apply<unknown>(size, error, redactError),
    message: () => undefined,
    json: (value, size) => apply(size, value, redactJson),
    text: (text) => apply(text.length, text, redactText),
    unreadable: rules[0]?.replacement ?? '',
    spansEvents: !rules.every(({ isAll, detectors }) => !isAll && detectors.length === 0),
  }
}
