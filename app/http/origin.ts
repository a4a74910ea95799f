// Web pages: a browser lets any page send a POST here, and one whose name was bound to the gateway's address
// (DNS rebinding) read the answer too.
import type { IncomingHttpHeaders } from 'node:http'
import { isLoopbackHost, Refusal } from '@svc/core'

/**
 * A page from elsewhere must not speak for the user of the machine (MCP, Streamable HTTP, "Security"). A bearer
 * token shows that the caller is no such page. Throws `Refusal`.
 */
export function checkOrigin({ origin, authorization }: IncomingHttpHeaders): void {
  if (origin === undefined || authorization !== undefined || isLoopback(origin)) return
  throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of this origin may not call without a bearer token.')
}

function isLoopback(origin: string): boolean {
  if (!URL.canParse(origin)) return false
  return isLoopbackHost(new URL(origin).hostname)
}
