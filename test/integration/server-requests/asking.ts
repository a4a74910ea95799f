// Servers that ask their clients for something of each kind, clients that respond, and the routes between them.
import type { Client as Client2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ResultSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { startTestGateway } from '../../support/gateway.js'
import { startLineGateway } from '../../support/line-gateway.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { until } from '../../support/stdio-target.js'
import { startSessionServer, startStatelessServer } from '../../support/tool-servers.js'

export const kinds = ['sampling', 'elicitation_form', 'elicitation_url', 'roots'] as const
export type Kind = (typeof kinds)[number]
export const eras = ['handshake', 'stateless'] as const
export type Era = (typeof eras)[number]
export const routes = ['one server', 'several servers', 'svc stdio'] as const
export type Route = (typeof routes)[number]

const goodUrl = 'https://accounts.good.example/consent'

/** Requests that a policy can allow. */
export const requestOf: Readonly<Record<Kind, { readonly method: string; readonly params: object }>> = {
  sampling: {
    method: 'sampling/createMessage',
    params: { messages: [{ role: 'user', content: { type: 'text', text: 'Say.' } }], maxTokens: 10 },
  },
  elicitation_form: {
    method: 'elicitation/create',
    params: {
      message: 'Which branch?',
      requestedSchema: { type: 'object', properties: { branch: { type: 'string' } }, required: ['branch'] },
    },
  },
  elicitation_url: {
    method: 'elicitation/create',
    params: { mode: 'url', message: 'Please agree.', url: goodUrl, elicitationId: 'e1' },
  },
  roots: { method: 'roots/list', params: {} },
}

const replies = {
  sampling: { model: 'm', role: 'assistant', content: { type: 'text', text: 'Sampled.' } },
  elicitation_form: { action: 'accept', content: { branch: 'main' } },
  elicitation_url: { action: 'accept' },
  roots: { roots: [{ uri: 'file:///work', name: 'work' }] },
} as const

const said = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) }] })
const input = { method: z.string(), params: z.record(z.string(), z.unknown()) }

export interface Asking extends AsyncDisposable {
  /** By era. */
  readonly urls: Readonly<Record<Era, string>>
  /** Sends a request on the GET stream of the last session, and resolves to the response or the error. */
  askOnStream(request: { method: string; params: object }): Promise<unknown>
}

/** The tool `ask` sends the request of its arguments, and responds with what it got. */
export async function startAsking(): Promise<Asking> {
  const handshake = await startSessionServer('asking', (server) => {
    server.registerTool('ask', { inputSchema: input }, async ({ method, params }, { sendRequest }) =>
      said(await sendRequest({ method, params } as never, ResultSchema)),
    )
  })
  const stateless = await startStatelessServer('asking', (server) => {
    server.registerTool('ask', { inputSchema: z.object(input) }, ({ method, params }, { mcpReq }) => {
      const { inputResponses } = mcpReq
      const [reply] = Object.values(inputResponses ?? {})
      if (reply !== undefined) return said([reply, mcpReq.requestState<string>() ?? null])
      return {
        resultType: 'input_required',
        inputRequests: { q: { method, params } },
        requestState: 'of the server',
      } as never
    })
  })
  return {
    urls: { handshake: handshake.url, stateless: stateless.url },
    async askOnStream(request) {
      const isOpen = (): boolean =>
        handshake.methods.lastIndexOf('GET') > handshake.methods.lastIndexOf('initialize')
      await until(isOpen)
      const last = [...handshake.sessions.values()].at(-1)
      return last?.server.request(request as never, ResultSchema).catch(({ message }: Error) => message)
    },
    async [Symbol.asyncDispose]() {
      await handshake[Symbol.asyncDispose]()
      await stateless[Symbol.asyncDispose]()
    },
  }
}

export interface Asked {
  /** What the client was asked, in order. */
  readonly asked: Record<string, unknown>[]
  call(request: { method: string; params: object }): Promise<string>
}

type Reply = (kind: Kind, params: Record<string, unknown>) => object

function kindIn(method: string, params: Record<string, unknown>): Kind {
  if (method === 'elicitation/create')
    return params['mode'] === 'url' ? 'elicitation_url' : 'elicitation_form'
  return method === 'roots/list' ? 'roots' : 'sampling'
}

const capabilities = { sampling: {}, roots: {}, elicitation: { form: {}, url: {} } }

/** A client that responds to every request of the server. */
export async function connectAsked(
  url: string,
  era: Era,
  tool: string,
  reply: Reply = (kind) => replies[kind],
): Promise<Asked & AsyncDisposable> {
  const asked: Record<string, unknown>[] = []
  const respond = (method: string, params: Record<string, unknown> = {}): never => {
    asked.push(params)
    return reply(kindIn(method, params), params) as never
  }
  if (era === 'stateless') {
    const client = await connect2(url, { capabilities })
    for (const method of ['sampling/createMessage', 'elicitation/create', 'roots/list'] as const)
      client.setRequestHandler(method, ({ params }) => respond(method, params as Record<string, unknown>))
    return { asked, call: callBy(client, tool), [Symbol.asyncDispose]: () => client.close() }
  }
  const client = await connect1(url, { capabilities, prepare: (one) => prepare(one, respond) })
  return { asked, call: callBy(client, tool), [Symbol.asyncDispose]: () => client.close() }
}

function prepare(client: Client, respond: (method: string, params: Record<string, unknown>) => never): void {
  for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
    client.setRequestHandler(schema as typeof ListRootsRequestSchema, ({ method, params = {} }) =>
      respond(method, params),
    )
  }
}

function callBy(client: Client | Client2, tool: string): Asked['call'] {
  return ({ method, params }) =>
    (client as Client).callTool({ name: tool, arguments: { method, params } }).then(
      ({ content }) => (content as { text: string }[])[0]?.text ?? '',
      ({ message }: Error) => message,
    )
}

export interface AskingRoute extends AsyncDisposable {
  readonly connect: (era: Era, reply?: Reply) => Promise<Asked & AsyncDisposable>
  records(): readonly Record<string, unknown>[]
}

/** A route to the server of `era` under a policy. */
export async function openRoute(
  route: Route,
  url: string,
  sections: Record<string, unknown>,
): Promise<AskingRoute> {
  if (route === 'svc stdio') return openStdioRoute(url, sections)
  const isOne = route === 'one server'
  const gateway = await startTestGateway({ targets: { asking: url }, ...sections })
  return {
    connect: (era, reply) =>
      connectAsked(`${gateway.url}/mcp${isOne ? '/asking' : ''}`, era, isOne ? 'ask' : 'asking__ask', reply),
    records: () => gateway.records() as unknown as Record<string, unknown>[],
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  }
}

async function openStdioRoute(url: string, sections: Record<string, unknown>): Promise<AskingRoute> {
  const gateway = await startLineGateway({ targets: { asking: url }, ...sections })
  return {
    async connect(_era, reply = (kind) => replies[kind]) {
      const asked: Record<string, unknown>[] = []
      const client = new Client({ name: 'test', version: '1' }, { capabilities })
      prepare(client, (method, params) => {
        asked.push(params)
        return reply(kindIn(method, params), params) as never
      })
      await gateway.connect(client)
      return { asked, call: callBy(client, 'asking__ask'), [Symbol.asyncDispose]: () => client.close() }
    },
    records: () => gateway.records,
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  }
}
