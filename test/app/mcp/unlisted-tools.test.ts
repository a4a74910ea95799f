// Calls that would wait for people, of tools that their server does not list.
import { expect } from 'chai'
import { AnnotationCache } from 'svc-sdk/internal/mcp/learned-values'
import { FakeClock } from 'svc-sdk/testing'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { json, result, serverOf } from '../../support/mcp-server.js'
import { mcpState } from '../../support/mcp-state.js'

const policyYaml = `
rules: [{ name: people, tools: ["files/*"], then: escalate }]
entitlements: { default_plan: p, plans: { p: { allowlist: ["files/*"], denylist: [files/move_fire] } }, tenants: {} }
enforcement: { escalations: { adapter: memory } }`

interface Refusal {
  readonly code: string | undefined
  readonly reason: string | undefined
  readonly message: string
}

async function ask({ url }: TestGateway, method: string, params: object): Promise<Refusal> {
  const response = await fetch(`${url}/mcp/files`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { error } = (await response.json()) as {
    error?: { message: string; data?: { error?: string; denial_reason?: string } }
  }
  return { code: error?.data?.error, reason: error?.data?.denial_reason, message: error?.message ?? '' }
}

const call = (gateway: TestGateway, name: string) => ask(gateway, 'tools/call', { name, arguments: {} })

describe('a call that would wait for people', () => {
  let tools: string[]
  let upstream: AsyncDisposable & { readonly url: string }
  let gateway: TestGateway

  before(async () => {
    ;({ upstream } = await serverOf((message, response) => {
      const { method, params } = message as { method: string; params?: { cursor?: string } }
      if (method !== 'tools/list') return json(response, result(message, { content: [] }))
      const at = Number(params?.cursor ?? 0)
      const page = tools.slice(at, at + 2).map((name) => ({ name, inputSchema: { type: 'object' } }))
      const more = at + 2 < tools.length ? { nextCursor: String(at + 2) } : {}
      json(response, result(message, { tools: page, ...more }))
    }))
    gateway = await startTestGateway({ targets: { files: `mcp+${upstream.url}/mcp` }, policyYaml })
  })

  after(async () => {
    await gateway?.[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })

  it('is refused with the nearest names once the list of its server is known, and lacks its tool', async () => {
    tools = ['move_fire', 'move_file', 'read_file', 'move_files', 'write']
    expect(await call(gateway, 'mov_file')).to.include({ code: 'ESCALATION_PENDING' })
    // The second page shows that the list has a third.
    await ask(gateway, 'tools/list', {})
    expect(await call(gateway, 'move_fle')).to.include({ code: 'ESCALATION_PENDING' })
    await ask(gateway, 'tools/list', { cursor: '2' })
    await ask(gateway, 'tools/list', { cursor: '4' })
    const refused = await call(gateway, 'move_fil')
    expect(refused).to.include({ code: 'TOOL_NOT_ALLOWED', reason: 'tool_not_listed' })
    // The caller may not use move_fire, and so does not learn of it.
    expect(refused.message)
      .to.include('Similar names that it lists: "move_file", "move_files".')
      .and.not.include('move_fire')
    expect(gateway.records().at(-1)?.policy).to.deep.include({ decision: 'deny' })
    for (const listed of ['move_file', 'write'])
      expect(await call(gateway, listed)).to.include({ code: 'ESCALATION_PENDING' })
  })

  it('is refused over the invoke protocol alike', async () => {
    const invoked = async (name: string) =>
      (await (await gateway.invoke(`/mcp/files/${name}@unversioned`)).json()) as object
    expect(await invoked('move_fil')).to.include({ denial_reason: 'tool_not_listed', sent: false })
    expect(await invoked('move_file')).to.include({ error: 'ESCALATION_PENDING' })
  })

  it('waits for people again once its server lists the tool', async () => {
    tools = ['move_fil']
    await ask(gateway, 'tools/list', {})
    expect(await call(gateway, 'move_fil')).to.include({ code: 'ESCALATION_PENDING' })
  })
})

describe('the known lists of servers', () => {
  const upstream = new URL('http://127.0.0.1:1/mcp')
  const page = (...names: string[]) => ({ tools: names.map((name) => ({ name })) })

  function learner() {
    const clock = new FakeClock()
    const cache = new AnnotationCache(mcpState(clock), clock)
    return { clock, cache, lists: cache.lists({ files: upstream.href }) }
  }

  it('expire after an hour, and are unknown if only a last page has been seen', async () => {
    const { clock, cache, lists } = learner()
    await cache.learnNames({ upstream }, page('a'), 'of an earlier gateway')
    expect(await lists('files', 'b')).to.equal(undefined)
    await cache.learnNames({ upstream }, page('a'), undefined)
    expect(await lists('files', 'b')).to.deep.equal(['a'])
    expect(await lists('files', 'a')).to.equal(undefined)
    expect(await lists('others', 'b')).to.equal(undefined)
    clock.advance(3_600_000)
    expect(await lists('files', 'b')).to.equal(undefined)
  })

  it('leave out a server whose name no call can have', async () => {
    const { cache } = learner()
    const lists = cache.lists({ ['x'.repeat(5000)]: 'http://127.0.0.1:2/mcp', files: upstream.href })
    await cache.learnNames({ upstream }, page('a'), undefined)
    expect(await lists('files', 'b')).to.deep.equal(['a'])
  })

  it('are unknown if they have more tools than are kept', async () => {
    const { cache, lists } = learner()
    await cache.learnNames(
      { upstream },
      page(...Array.from({ length: 5000 }, (_, at) => `t${at}`)),
      undefined,
    )
    expect(await lists('files', 'b')).to.equal(undefined)
  })
})
