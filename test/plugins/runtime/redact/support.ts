// A tool server's response and a runtime that requires its redaction.
import type { ServerResponse } from 'node:http'
import type { UpstreamCall } from '../../../support/upstream.js'
import { decide, type Setup, startSetup } from '../gateway.js'

export type Tool = (call: UpstreamCall, response: ServerResponse) => void

export interface RedactionCase {
  /** Parameters of the obligation `redact_output`. */
  readonly params?: object
  readonly tool: Tool
}

export function startRedacting(
  { params, tool }: RedactionCase,
  mode: 'enforce' | 'observe' = 'enforce',
  protections?: object,
): Promise<Setup> {
  const obligation = { type: 'redact_output', ...(params === undefined ? {} : { params }) }
  return startSetup({
    runtime: (response) => decide(response, { action: 'allow', obligations: [obligation] }),
    tool,
    gateway: { enforcement: { mode }, ...(protections === undefined ? {} : { protections }) },
  })
}

export const respondWith =
  (body: unknown, type = 'application/json', status = 200): Tool =>
  (_call, response) => {
    response.writeHead(status, { 'content-type': type, etag: '"secret"' })
    response.end(typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body))
  }

export const invoice = {
  id: 'INV-1',
  customer: { name: 'Ada', email: 'ada@example.com' },
  lines: [
    { text: 'tea', card: '4111 1111 1111 1111' },
    { text: 'for bob@example.org', card: '4111 1111 1111 1112' },
  ],
}
