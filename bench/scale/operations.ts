// What takes several requests of a client or a person: an approval, and an MCP session.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { request } from 'undici'
import { listen } from '../gateway/listen.js'
import { endSession, openSession } from '../gateway/mcp-requests.js'
import { SERVER, TOOL, VERSION } from '../gateway/requests.js'

/** Fewer than the escalations that a caller may have pending. */
const AT_ONCE = 8
const ADMIN_TOKEN = 'the-admin-token-of-the-benchmark'

export async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** Sections of a policy by which each call with a URL waits for an approval. */
export function approvalSections(redisUrl: string, adminPort: number): Record<string, unknown> {
  process.env['SVC_BENCH_ADMIN_TOKEN'] = ADMIN_TOKEN
  return {
    authn: { allowUnauthenticated: true },
    security: { egress_allowlist: [], side_effects: { approve_high_risk: true } },
    enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: 'redis', redisUrl } },
    admin: { port: adminPort, tokenRef: 'env:SVC_BENCH_ADMIN_TOKEN' },
  }
}

/** Opens an escalation, approves it, and repeats the call, so many times. */
export async function approveAll(port: number, adminPort: number, count: number): Promise<void> {
  const url = `http://127.0.0.1:${port}/mcp/${SERVER}/${TOOL}@${VERSION}`
  await repeated(count, async () => {
    const body = { url: 'https://example.com/', id: randomUUID() }
    const { escalation_id: id } = await post({ url, body, status: 403 })
    const votes = `http://127.0.0.1:${adminPort}/api/escalations/${id}/votes`
    await post({ url: votes, body: { vote: 'approve' }, status: 200, token: ADMIN_TOKEN })
    await post({ url, body, status: 200 })
  })
}

/** Opens an MCP session and ends it, so many times. */
export async function openSessions(port: number, tokens: readonly string[], count: number): Promise<void> {
  await repeated(count, async (at) => {
    const token = tokens[at % tokens.length] ?? ''
    await endSession(port, token, await openSession(port, token))
  })
}

interface Post {
  readonly url: string
  readonly body: object
  readonly token?: string
  /** The status that is expected. */
  readonly status: number
}

async function post({ url, body, token, status }: Post): Promise<Record<string, unknown>> {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const headers = { 'content-type': 'application/json', ...authorization }
  const response = await request(url, { method: 'POST', headers, body: JSON.stringify(body) })
  const text = await response.body.text()
  if (response.statusCode !== status) throw new Error(`${url} had ${response.statusCode}: ${text}`)
  return JSON.parse(text)
}

async function repeated(count: number, once: (at: number) => Promise<void>): Promise<void> {
  let begun = 0
  const repeat = async () => {
    while (begun < count) await once(begun++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, repeat))
}
