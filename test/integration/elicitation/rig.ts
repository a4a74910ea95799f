// A billing server behind a gateway, clients that can ask a person, and reviewers at the admin listener.
import { createServer } from 'node:http'
import { Client as Client2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  ElicitationCompleteNotificationSchema,
  ElicitRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { GatewaySettings } from 'svc-sdk'
import { z } from 'zod'
import { ask, type HttpResponse } from '../../app/admin/rig.js'
import { startTestGateway } from '../../support/gateway.js'
import { startLineGateway } from '../../support/line-gateway.js'
import { listenOnLoopback } from '../../support/loopback.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { startSessionServer, startStatelessServer } from '../../support/tool-servers.js'

export const adminToken = 'a-token-of-the-tests-0123456789'
export const eras = ['handshake', 'stateless'] as const
type Era = (typeof eras)[number]
export const routes = ['/mcp/billing', '/mcp', 'svc stdio', 'svc stdio --name billing'] as const
export type Route = (typeof routes)[number]

export interface Billing extends AsyncDisposable {
  /** By era, and of a server of the handshake's era without sessions. */
  readonly urls: Readonly<Record<Era | 'sessionless', string>>
  /** The amounts that were refunded. */
  readonly refunds: number[]
  /** Changes the description of the tool, in open sessions too. */
  describe(description: string): void
}

const input = { amount: z.number(), note: z.string().optional() }

export async function startBilling(): Promise<Billing> {
  const refunds: number[] = []
  const registered: { update(changes: { description: string }): void }[] = []
  let description = 'Refunds.'
  const refund = ({ amount }: { amount: number }) => {
    refunds.push(amount)
    return { content: [{ type: 'text' as const, text: `refunded ${amount}` }] }
  }
  const handshake = await startSessionServer('billing', (server) => {
    registered.push(server.registerTool('refund', { description, inputSchema: input }, refund))
  })
  const stateless = await startStatelessServer('billing', (server) => {
    server.registerTool('refund', { description, inputSchema: z.object(input) }, refund)
  })
  const sessionless = await startSessionless((server) => {
    server.registerTool('refund', { description, inputSchema: input }, refund)
  })
  return {
    urls: { handshake: handshake.url, stateless: stateless.url, sessionless: sessionless.url },
    refunds,
    describe(changed) {
      description = changed
      for (const tool of registered) tool.update({ description })
    },
    async [Symbol.asyncDispose]() {
      await handshake[Symbol.asyncDispose]()
      await stateless[Symbol.asyncDispose]()
      await sessionless[Symbol.asyncDispose]()
    },
  }
}

/** A server of SDK 1.x that gives its clients no sessions. */
async function startSessionless(
  register: (server: McpServer) => void,
): Promise<AsyncDisposable & { readonly url: string }> {
  const listening = await listenOnLoopback(
    createServer(async (message, response) => {
      const server = new McpServer({ name: 'billing', version: '1.0.0' })
      register(server)
      const transport = new StreamableHTTPServerTransport()
      await server.connect(transport as never)
      if (message.headers['mcp-session-id'] !== undefined) response.writeHead(400).end()
      else await transport.handleRequest(message, response)
    }),
  )
  return { url: `${listening.url}/mcp`, [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose]() }
}

/** The servers of the tests of one `describe`; each test begins without refunds. */
export function sharedBilling(): Omit<Billing, typeof Symbol.asyncDispose> {
  let billing: Billing
  before(async () => {
    billing = await startBilling()
  })
  after(() => billing[Symbol.asyncDispose]())
  beforeEach(() => {
    billing.refunds.length = 0
  })
  return {
    get urls() {
      return billing.urls
    },
    get refunds() {
      return billing.refunds
    },
    describe: (description) => billing.describe(description),
  }
}

/** Every refund waits for a reviewer. */
export const waiting = {
  rules: [{ name: 'refunds', tools: ['*/refund'], then: 'escalate', message: 'A person approves refunds.' }],
  admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
  env: { SVC_ADMIN: adminToken },
} as const

export interface Elicited {
  readonly mode?: string
  readonly message: string
  readonly url?: string
  readonly elicitationId?: string
  readonly requestedSchema?: unknown
}
type Reply = { readonly action: string; readonly content?: object }
/** What the person at the client does. */
type Person = (request: Elicited) => Reply | Promise<Reply>

interface Asked extends AsyncDisposable {
  readonly client: Client
  readonly asked: Elicited[]
  /** The ids in `notifications/elicitation/complete`. */
  readonly completed: string[]
  /** The text of the result, or the message of the error. */
  refund(amount: number, options?: object): Promise<string>
}

export interface Gateway extends AsyncDisposable {
  readonly url: string
  readonly adminUrl: string
  connect(person: Person, options?: Connecting): Promise<Asked>
  records(): readonly Record<string, unknown>[]
  admin(path: string, body?: object): Promise<HttpResponse>
  vote(id: string, vote: 'approve' | 'reject'): Promise<HttpResponse>
  reload(policy: Record<string, unknown>): Promise<void>
  /** The policy for `reload`. */
  readonly policy: Record<string, unknown>
  close(): Promise<void>
}

interface Connecting {
  readonly era?: Era
  readonly capabilities?: object
  readonly headers?: Record<string, string>
}

export const bothModes = { elicitation: { form: {}, url: {} } }

/** Whether the client gets the one server, which translates nothing. */
export const isOfOneServer = (route: Route): boolean => route.endsWith('billing')
export const tool = (route: Route) => (isOfOneServer(route) ? 'refund' : 'billing__refund')

/** The id of the escalation in the URL of its page. */
export function idIn({ url = '' }: Elicited): string {
  return decodeURIComponent(url.slice(url.lastIndexOf('/') + 1))
}

export async function startGateway(
  route: Route,
  target: string,
  settings: object = waiting,
): Promise<Gateway> {
  return route.startsWith('/') ? startHttp(route, target, settings) : startStdio(route, target, settings)
}

const adminOf = (adminUrl: string): Pick<Gateway, 'adminUrl' | 'admin' | 'vote'> => {
  const admin = (path: string, body?: object) =>
    ask(adminUrl, path, {
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
  return { adminUrl, admin, vote: (id, vote) => admin(`/api/escalations/${id}/votes`, { vote }) }
}

async function startHttp(route: Route, target: string, settings: object): Promise<Gateway> {
  const { env: _, ...sections } = settings as GatewaySettings
  const policy = { targets: { billing: target }, authn: { allowUnauthenticated: true }, ...sections }
  const gateway = await startTestGateway({ targets: { billing: target }, ...settings } as GatewaySettings)
  const { adminUrl = '' } = await gateway.handle.ready()
  const url = `${gateway.url}${route}`
  return {
    url,
    ...adminOf(adminUrl),
    connect: (person, options) => connect(url, tool(route), person, options),
    records: () => gateway.records() as unknown as Record<string, unknown>[],
    policy,
    reload: (next) => gateway.handle.reload(next),
    close: () => gateway.handle.close(),
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  }
}

/** A client of the SDK that declares elicitation. */
export async function connect(
  url: string,
  name: string,
  person: Person,
  { era = 'handshake', capabilities = bothModes, headers = {} }: Connecting = {},
): Promise<Asked> {
  if (era === 'handshake') {
    const asked = { asked: [] as Elicited[], completed: [] as string[] }
    const prepare = (one: Client) => void Object.assign(asked, listen(one, person))
    return askedBy(await connect1(url, { capabilities, headers, prepare }), name, asked)
  }
  const client = await connect2(url, { capabilities, headers })
  return askedBy(client as unknown as Client, name, listen2(client, person))
}

function listen2(client: Client2, person: Person): Pick<Asked, 'asked' | 'completed'> {
  const asked: Elicited[] = []
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    asked.push(params as unknown as Elicited)
    return (await person(params as unknown as Elicited)) as never
  })
  return { asked, completed: [] }
}

function listen(client: Client, person: Person): Pick<Asked, 'asked' | 'completed'> {
  const asked: Elicited[] = []
  const completed: string[] = []
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params as Elicited)
    return (await person(params as Elicited)) as never
  })
  client.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => {
    completed.push(params.elicitationId)
  })
  return { asked, completed }
}

function askedBy(client: Client, name: string, asked: Pick<Asked, 'asked' | 'completed'>): Asked {
  return {
    client,
    ...asked,
    refund: (amount, options) =>
      client.callTool({ name, arguments: { amount } }, undefined, options as never).then(
        ({ content }) => (content as { text: string }[])[0]?.text ?? '',
        ({ message }: Error) => message,
      ),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

async function startStdio(route: Route, target: string, settings: object): Promise<Gateway> {
  const escalations = { enforcement: { escalations: { adapter: 'memory' } } }
  const gateway = await startLineGateway(
    { targets: { billing: target }, ...escalations, ...settings },
    isOfOneServer(route) ? 'billing' : undefined,
  )
  return {
    url: '',
    ...adminOf(gateway.adminUrl),
    async connect(person, { era = 'handshake', capabilities = bothModes } = {}) {
      if (era === 'stateless') {
        const options = { capabilities, versionNegotiation: { mode: 'auto' } } as const
        const client = new Client2({ name: 'test', version: '1' }, options)
        const asked = listen2(client, person)
        await gateway.connect(client as unknown as Client)
        return askedBy(client as unknown as Client, tool(route), asked)
      }
      const client = new Client({ name: 'test', version: '1' }, { capabilities })
      const asked = listen(client, person)
      await gateway.connect(client)
      return askedBy(client, tool(route), asked)
    },
    records: () => gateway.records,
    policy: {},
    reload: () => Promise.reject(new Error('not reloaded here')),
    close: () => gateway.close(),
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  }
}
