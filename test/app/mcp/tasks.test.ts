import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import {
  event,
  events,
  type HttpResponse,
  json,
  type Message,
  result,
  serverOf,
} from '../../support/mcp-server.js'
import { ofSuite } from '../../support/parts.js'
import type { TestUpstream } from '../../support/upstream.js'

const RELATED = 'io.modelcontextprotocol/related-task'
/** A tag, the server, the tool, the server's own id. */
const forms = /^[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.t-\d+$/
const REVISION = '2026-07-28'

type Params = Record<string, unknown>

const undeclared = {
  'io.modelcontextprotocol/protocolVersion': REVISION,
  'io.modelcontextprotocol/clientCapabilities': {},
}
const declaring = {
  ...undeclared,
  'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
}

const statelessHeaders = (method: string) => ({ 'mcp-protocol-version': REVISION, 'mcp-method': method })

describe('MCP tasks', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  /** The server's own ids of all callers' tasks. */
  let made: string[]
  /** Messages of tasks that the server got. */
  let asked: Message[]

  const taskOf = (taskId: unknown) => ({ taskId, status: 'working', ttl: 60_000 })

  const server: HttpResponse = (message, response) => {
    const method = String(message['method'])
    const params = (message['params'] ?? {}) as Params
    if (method === 'tools/call') {
      const id = `t-${made.length + 1}`
      made.push(id)
      if (params['name'] === 'flat') json(response, result(message, { resultType: 'task', ...taskOf(id) }))
      else json(response, result(message, { task: taskOf(id) }))
      return
    }
    if (!method.startsWith('tasks/')) return json(response, result(message))
    asked.push(message)
    if (method === 'tasks/list') return json(response, result(message, { tasks: made.map(taskOf) }))
    const { taskId } = params
    if (method !== 'tasks/result') return json(response, result(message, taskOf(taskId)))
    const about = { _meta: { [RELATED]: { taskId } } }
    const status = { jsonrpc: '2.0', method: 'notifications/tasks/status' }
    events(
      response,
      ...made.map((id) => event({ ...status, params: taskOf(id) })),
      event({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', ...about } }),
      event(result(message, { content: [], ...about })),
    )
  }

  const issuer = ofSuite(() => TestIssuer.start())
  before(async () => {
    ;({ upstream } = await serverOf(server))
  })

  after(() => upstream[Symbol.asyncDispose]())

  beforeEach(async () => {
    made = []
    asked = []
    gateway = await startTestGateway(options())
  })

  afterEach(() => gateway[Symbol.asyncDispose]())

  function options(more: GatewaySettings = {}): GatewaySettings {
    return { targets: { files: `${upstream.url}/mcp` }, authn: { oidc: issuer.oidc }, ...more }
  }

  interface Caller {
    ask(method: string, params?: Params, headers?: Record<string, string>): Promise<Message>
    /** The id of a new task. */
    begin(tool?: string): Promise<string>
  }

  async function caller(
    claims: Record<string, unknown> = {},
  ): Promise<Caller & { text(method: string, params: Params): Promise<string> }> {
    const authorization = `Bearer ${await issuer.sign(claims)}`
    const text = async (method: string, params: Params, headers: Record<string, string> = {}) => {
      const accept = 'application/json, text/event-stream'
      const message = { jsonrpc: '2.0', id: 1, method, params }
      const response = await gateway.invoke('/mcp/files', message, { authorization, accept, ...headers })
      return response.text()
    }
    const ask: Caller['ask'] = async (method, params = {}, headers = {}) =>
      JSON.parse(await text(method, params, headers)) as Message
    const begin = async (tool = 'report'): Promise<string> => {
      const { result: got } = await ask('tools/call', { name: tool, task: {} })
      const { task, taskId } = got as { task?: Params; taskId?: string }
      return String(task?.['taskId'] ?? taskId)
    }
    return { ask, begin, text }
  }

  const bob = { sub: 'bob', email: 'bob@example.com' }
  const methods = ['tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update', 'tasks/anything']

  it('are read and cancelled by their caller, under an id of the gateway', async () => {
    const ada = await caller()
    for (const tool of ['report', 'flat', 'größe/x']) {
      const taskId = await ada.begin(tool)
      expect(taskId).to.match(forms)
      for (const method of ['tasks/get', 'tasks/cancel']) {
        expect(await ada.ask(method, { taskId }), tool).to.have.nested.property('result.taskId', taskId)
        expect(asked.at(-1)).to.have.deep.property('params', { taskId: made.at(-1) })
      }
    }
  })

  it('are linked to their tool call in the log', async () => {
    const ada = await caller()
    const taskId = await ada.begin()
    await ada.ask('tasks/get', { taskId })
    const [began, read] = gateway.records().slice(-2)
    expect(began).to.include({ mcp_method: 'tools/call', mcp_task_sha256: sha256Hex(taskId) })
    expect(read).to.include({ mcp_method: 'tasks/get', mcp_task_sha256: sha256Hex(taskId) })
  })

  it("are not found by other callers, of the tenant or another, by the id or the server's own", async () => {
    const taskId = await (await caller()).begin()
    for (const claims of [bob, { org: 'globex' }, { email: undefined, sub: undefined, azp: 'ada' }]) {
      const other = await caller(claims)
      const theirs = await other.begin()
      const tag = theirs.slice(0, theirs.lastIndexOf('.'))
      for (const method of methods) {
        for (const id of [taskId, 't-1', `${tag}.t-1`, ['t-1'], { taskId }]) {
          const response = await other.ask(method, { taskId: id })
          expect(response, `${method} ${String(id)}`).to.have.nested.property('error.code', -32602)
        }
      }
    }
    expect(asked).to.have.length(0)
    expect(gateway.records().at(-1)).to.include({ error: 'BAD_REQUEST', mcp_method: 'tasks/anything' })
  })

  it('are listed only to their caller', async () => {
    const [ada, other] = [await caller(), await caller(bob)]
    const first = await ada.begin()
    await other.begin()
    const second = await ada.begin()
    const { result: listed } = await ada.ask('tasks/list')
    expect(listed).to.deep.equal({ tasks: [taskOf(first), taskOf(second)] })
    expect(await (await caller({ org: 'globex' })).ask('tasks/list')).to.have.deep.nested.property(
      'result.tasks',
      [],
    )
  })

  it("have the client's id in notifications, which do not name tasks of others", async () => {
    const ada = await caller()
    await (await caller(bob)).begin()
    const taskId = await ada.begin()
    const text = await ada.text('tasks/result', { taskId })
    expect(text).to.not.match(/"taskId":"t-/)
    expect(text.match(/notifications\/tasks\/status/g)).to.have.length(1)
    expect(text.split(taskId)).to.have.length(4)
  })

  it('need permission for their tool', async () => {
    const ada = await caller()
    const [open, closed] = [await ada.begin('report'), await ada.begin('secret')]
    const { records } = gateway
    const allowed = { default_plan: 'p', plans: { p: { allowlist: ['files/report'] } }, tenants: {} }
    await gateway.handle.reload({ entitlements: allowed })
    expect(await ada.ask('tasks/get', { taskId: open })).to.have.property('result')
    expect(await ada.ask('tasks/get', { taskId: closed })).to.have.nested.property('error.code', 403)
    expect(await ada.ask('tasks/list')).to.have.deep.nested.property('result.tasks', [taskOf(open)])
    expect(records().map(({ error }) => error)).to.include('TOOL_NOT_ALLOWED')
  })

  it('are named to the server by its own id in headers and in related messages', async () => {
    const ada = await caller()
    const taskId = await ada.begin()
    const headers = { ...statelessHeaders('tasks/get'), 'mcp-name': taskId }
    expect(await ada.ask('tasks/get', { taskId, _meta: declaring }, headers)).to.have.property('result')
    expect(upstream.calls.at(-1)?.headers).to.include({ 'mcp-name': 't-1' })
    await ada.ask('tools/call', { name: 'report', _meta: { [RELATED]: { taskId } } })
    expect(upstream.calls.at(-1)?.body).to.include(`{"taskId":"t-1"}`)
    const foreign = { name: 'report', _meta: { [RELATED]: { taskId: 't-1' } } }
    expect(await ada.ask('tools/call', foreign)).to.have.nested.property('error.code', -32602)
  })

  for (const [method, meta, code, what] of [
    ['tasks/get', declaring, -32602, 'it is unknown'],
    ['tasks/get', undeclared, -32021, 'its client does not declare the extension'],
    ['tasks/update', undeclared, -32021, 'its client does not declare the extension'],
    ['tasks/cancel', undeclared, -32021, 'its client does not declare the extension'],
    ['tasks/result', undeclared, -32601, 'the revision has no such method'],
    ['tasks/list', undeclared, -32601, 'the revision has no such method'],
  ] as const) {
    it(`of 2026-07-28 are refused with ${code} if ${what}: ${method}`, async () => {
      const ada = await caller()
      const { error } = await ada.ask(method, { taskId: 't-1', _meta: meta }, statelessHeaders(method))
      expect(error).to.include({ code })
      expect(asked).to.have.length(0)
      const extensions = { 'io.modelcontextprotocol/tasks': {} }
      const required = code === -32021 ? { extensions } : undefined
      expect((error as { data: Params }).data['requiredCapabilities']).to.deep.equal(required)
    })
  }
})
