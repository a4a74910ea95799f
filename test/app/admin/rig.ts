// A gateway with an admin listener and an escalation service in memory, and functions for requests to both ports.
import { type ClientRequest, type OutgoingHttpHeaders, request } from 'node:http'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import type { TestIssuer } from '../../support/issuer.js'
import { disagreement } from './document.js'
import { escalationServicePlugin, TestEscalationService } from './escalation-service.js'

export const adminToken = 'a-token-of-the-tests-0123456789'

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The parsed body; throws if it is not JSON. */
  readonly json: Record<string, unknown>
}

export interface Asking {
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
}

export interface AdminRig extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly adminUrl: string
  readonly service: TestEscalationService
  /** Sends a request to the admin listener, with the admin token unless headers are given. */
  admin(path: string, asking?: Asking): Promise<HttpResponse>
  /** Casts a vote, with the admin token if no bearer token is given. */
  vote(id: string, vote: unknown, bearer?: string): Promise<HttpResponse>
  /** Sends a request to the gateway's own port. */
  own(path: string, headers?: Record<string, string>): Promise<HttpResponse>
}

export async function startAdminRig(
  given: Partial<GatewaySettings> | ((home: string) => Partial<GatewaySettings>) = {},
): Promise<AdminRig> {
  const service = new TestEscalationService()
  const gateway = await startTestGateway((home) => ({
    targets: { billing: 'http://127.0.0.1:1' },
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
    env: { SVC_ADMIN: adminToken },
    plugins: [escalationServicePlugin(service)],
    ...(typeof given === 'function' ? given(home) : given),
  }))
  const { url, adminUrl = '' } = await gateway.handle.ready()
  const admin = (path: string, asking: Asking = {}) =>
    ask(adminUrl, path, { headers: { authorization: `Bearer ${adminToken}` }, ...asking })
  return {
    gateway,
    adminUrl,
    service,
    admin,
    vote: (id, vote, bearer = adminToken) =>
      admin(`/api/escalations/${id}/votes`, {
        method: 'POST',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: typeof vote === 'string' ? vote : JSON.stringify(vote),
      }),
    own: (path, headers = {}) => ask(url, path, { headers }),
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  }
}

/** `authn` that trusts the issuer. */
export function trusting(issuer: TestIssuer): Partial<GatewaySettings> {
  return { authn: { oidc: issuer.oidc } }
}

/** Origins of `svc console`, whose own responses about its session are not of the gateway's API. */
export const localConsoles = new Set<string>()

/**
 * Unlike fetch, it sends any header unchanged, also Host. Rejects if a JSON response does not agree with the document of the
 * admin API.
 */
export async function ask(base: string, path: string, { body, ...asking }: Asking): Promise<HttpResponse> {
  const sending = request(base, { path, agent: false, ...asking })
  sending.end(body)
  const response = await responseTo(sending)
  if (response.headers.get('content-type') === 'application/json' && !localConsoles.has(base)) {
    const reason = disagreement({ ...asking, path }, response.status, response.text)
    if (reason !== undefined) throw new Error(`not as documented: ${reason}`)
  }
  return response
}

/** Sends a POST request except for the last byte of its body, which `finish` sends; `cut` closes the connection. */
export async function askUnfinished(base: string, path: string, headers: OutgoingHttpHeaders, body: string) {
  const sending = request(base, {
    method: 'POST',
    path,
    agent: false,
    headers: { 'content-type': 'application/json', 'content-length': body.length, ...headers },
  })
  const response = responseTo(sending)
  // Settled by `cut`, when nobody waits for it.
  response.catch(() => undefined)
  await new Promise((sent) => sending.write(body.slice(0, -1), sent))
  return {
    finish: () => {
      sending.end(body.slice(-1))
      return response
    },
    cut: () => sending.destroy(),
  }
}

function responseTo(sending: ClientRequest): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    sending.once('error', reject)
    sending.once('response', (message) => {
      const pieces: Buffer[] = []
      message.on('data', (piece: Buffer) => pieces.push(piece))
      message.once('error', reject)
      message.once('end', () => {
        const text = Buffer.concat(pieces).toString()
        resolve({
          status: message.statusCode ?? 0,
          headers: new Headers(Object.entries(message.headers).map(([name, value]) => [name, String(value)])),
          text,
          get json() {
            return JSON.parse(text)
          },
        })
      })
    })
  })
}
