// Replaces the id of a JSON-RPC response (JSON-RPC 2.0 §5).
import { type JsonNumber, parseExactObject, stringifyJson } from '@svc/core/json'

/** Text that is not a JSON object, or has no id, is returned unchanged. */
export function withRpcId(text: string, id: string | number | JsonNumber): string {
  const message = parseExactObject(text)
  return message !== undefined && 'id' in message ? stringifyJson({ ...message, id }) : text
}
