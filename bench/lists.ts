// The cost of lists under `protections`, as a share of the same lists without the section: each server by itself, and all as one.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { Agent, request } from 'undici'
import { listen } from './gateway/listen.js'
import { Scene } from './gateway/scene.js'
import type { Child } from './measure/child.js'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const SERVERS = 100
const TOOLS = 200
const NONE = 'none'
const policies: Readonly<Record<string, object>> = {
  [NONE]: {},
  'the same again': {},
  definitions: { protections: { definitions: { trust: 'first_use' } } },
  'preset: guard': { protections: { preset: 'guard', definitions: { trust: 'first_use' } } },
}

/** Lists all tools of all servers, by themselves or as one; returns the CPU of the gateway for each tool, microseconds. */
type Lister = (gateway: Child) => Promise<number>

export async function measureLists(disk: string, quick: boolean): Promise<unknown> {
  heading(`Lists: ${SERVERS} servers with ${TOOLS} tools, CPU of the gateway`)
  const upstream = createServer(respond)
  const port = await listen(upstream)
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 })
  const scenes: Scene[] = []
  const gateways = new Map<string, Child>()
  try {
    for (const [name, policy] of Object.entries(policies)) {
      const scene = await Scene.set(disk, { ...common(port), ...policy })
      scenes.push(scene)
      gateways.set(name, await scene.subject('gateway'))
    }
    const listers: Readonly<Record<string, Lister>> = {
      'each server': (gateway) => cpuOf(gateway, () => listEach(gateway.port, agent)),
      'all as one': await asOne([...gateways.values()], agent),
    }
    const all: Record<string, Record<string, number[]>> = {}
    for (const [way, list] of Object.entries(listers)) {
      const rounds = Object.fromEntries([...gateways.keys()].map((name) => [name, [] as number[]]))
      all[way] = rounds
      const first: Record<string, number> = {}
      // Two rounds warm up: the first pins and records, unless another way of listing has done so.
      for (let round = -2; round < (quick ? 5 : 9); round++) {
        for (const [name, gateway] of gateways) {
          const cpu = await list(gateway)
          if (round === -2) first[name] = cpu
          if (round >= 0) rounds[name]?.push(cpu)
        }
      }
      report(way, rounds, first)
    }
    return all
  } finally {
    for (const scene of scenes) await scene.end()
    await agent.close()
    upstream.closeAllConnections()
    upstream.close()
  }
}

function report(way: string, rounds: Record<string, number[]>, first: Record<string, number>): void {
  const none = rounds[NONE] ?? []
  const rows = Object.entries(rounds).map(([name, cpu]) => {
    const ratios = spreadOf(cpu.map((one, round) => one / (none[round] ?? Number.NaN)))
    const cold = (first[name] ?? 0) / (first[NONE] ?? 1)
    return [name, figure(spreadOf(cpu)), figure(ratios, 2), (first[name] ?? 0).toFixed(1), cold.toFixed(2)]
  })
  table([[way, 'µs a tool', 'ratio', 'first list', 'ratio'], ...rows])
  print('')
}

function common(port: number): Record<string, unknown> {
  const servers = Array.from({ length: SERVERS }, (_, index) => `s${index}`)
  return {
    targets: Object.fromEntries(servers.map((name) => [name, `http://127.0.0.1:${port}/${name}`])),
    authn: { allowUnauthenticated: true },
    entitlements: 'open',
    security: {},
    federation: { list_ttl_ms: 0 },
  }
}

async function cpuOf(gateway: Child, list: () => Promise<void>): Promise<number> {
  const before = await gateway.ask('cpu')
  await list()
  return ((await gateway.ask('cpu')) - before) / (SERVERS * TOOLS)
}

async function listEach(port: number, agent: Agent): Promise<void> {
  for (let index = 0; index < SERVERS; index++) {
    const { tools } = (await ask(agent, `http://127.0.0.1:${port}/mcp/s${index}`, 'tools/list')).result
    if (tools?.length !== TOOLS) throw new Error(`a list has ${tools?.length} tools`)
  }
}

async function asOne(gateways: readonly Child[], agent: Agent): Promise<Lister> {
  const sessions = new Map<Child, string>()
  for (const gateway of gateways) {
    const { session } = await ask(agent, `http://127.0.0.1:${gateway.port}/mcp`, 'initialize', clientHello)
    sessions.set(gateway, session)
  }
  return (gateway) =>
    cpuOf(gateway, async () => {
      const url = `http://127.0.0.1:${gateway.port}/mcp`
      const { tools, nextCursor } = (await ask(agent, url, 'tools/list', {}, sessions.get(gateway))).result
      if (tools?.length !== 1_000 || nextCursor === undefined) throw new Error('the list is not whole')
    })
}

const clientHello = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'bench', version: '1' },
}

interface Listed {
  readonly tools?: readonly unknown[]
  readonly nextCursor?: string
}

async function ask(
  agent: Agent,
  url: string,
  method: string,
  params: object = {},
  session = '',
): Promise<{ readonly result: Listed; readonly session: string }> {
  const { body, headers } = await request(url, {
    method: 'POST',
    dispatcher: agent,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(session === '' ? {} : { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const text = await body.text()
  const message = JSON.parse(text.replace(/^(?:.*\n)*?data: (?=\{)/, '').trim())
  if (message.result === undefined) throw new Error(`${method}: ${text.slice(0, 500)}`)
  return { result: message.result, session: String(headers['mcp-session-id'] ?? '') }
}

const lists = new Map(
  Array.from({ length: SERVERS }, (_, server) => [
    `/s${server}`,
    JSON.stringify(Array.from({ length: TOOLS }, (_tool, index) => tool(server, index))),
  ]),
)

/** About 600 bytes of JSON, which is usual. */
function tool(server: number, index: number): object {
  const text = (description: string) => ({ type: 'string', description })
  return {
    name: `list_entries_${server}_${index}`,
    title: `List entries ${index}`,
    description: `Lists the entries of the collection ${index}, newest first. Returns at most the number of entries that was asked for, and a cursor if there are more of them.`,
    inputSchema: {
      type: 'object',
      properties: {
        collection: text('The name of the collection whose entries are listed'),
        cursor: text('The cursor that the list before this one returned'),
        limit: { type: 'integer', minimum: 1, maximum: 100, default: 20, description: 'Entries of a page' },
      },
      required: ['collection'],
    },
    annotations: { readOnlyHint: true, openWorldHint: false },
  }
}

async function respond(
  incoming: import('node:http').IncomingMessage,
  response: import('node:http').ServerResponse,
): Promise<void> {
  let text = ''
  incoming.setEncoding('utf8').on('data', (part: string) => {
    text += part
  })
  await once(incoming, 'end')
  const { id, method } = JSON.parse(text || '{}')
  if (id === undefined) return void response.writeHead(202).end()
  const list = method === 'tools/list' ? lists.get(incoming.url ?? '') : undefined
  const described = {
    protocolVersion: '2025-11-25',
    serverInfo: { name: 's', version: '1.0.0' },
    capabilities: { tools: {} },
  }
  const result = list === undefined ? JSON.stringify(described) : `{"tools":${list}}`
  response
    .writeHead(200, { 'content-type': 'application/json' })
    .end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`)
}
