// A gateway in front of an MCP server of the test's.
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from './gateway.js'
import { type HttpResponse, serverOf } from './mcp-server.js'
import type { UpstreamCall } from './upstream.js'

export interface Setting {
  readonly gateway: TestGateway
  readonly calls: readonly UpstreamCall[]
  post(body: unknown, headers?: Record<string, string>, signal?: AbortSignal): Promise<Response>
}

export async function withGateway(
  response: HttpResponse,
  use: (setting: Setting) => Promise<void>,
  options: Partial<GatewaySettings> = {},
  sessionId?: string,
): Promise<void> {
  const { upstream } = await serverOf(response, sessionId)
  const gateway = await startTestGateway({ targets: { files: upstream.url }, ...options })
  const post: Setting['post'] = (body, headers = {}, signal) =>
    fetch(`${gateway.url}/mcp/files`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    })
  try {
    await use({ gateway, calls: upstream.calls, post })
  } finally {
    await upstream[Symbol.asyncDispose]()
    await gateway[Symbol.asyncDispose]()
  }
}
