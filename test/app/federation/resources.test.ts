import { type McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js'
import { expect } from 'chai'
import { z } from 'zod'
import { startEverything } from '../../support/everything.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { startSessionServer } from '../../support/tool-servers.js'

/** Notes; two servers have the first one. */
function notes(own: string) {
  return (server: McpServer): void => {
    for (const uri of ['note://shared', `note://${own}`]) {
      server.registerResource(uri, uri, {}, () => ({ contents: [{ uri, text: `${uri} of ${own}` }] }))
    }
    const template = new ResourceTemplate(`${own}://{day}/page`, {
      list: undefined,
      complete: { day: () => [`${own}day`] },
    })
    server.registerResource('page', template, {}, (uri) => ({ contents: [{ uri: uri.href, text: own }] }))
    server.registerPrompt('greet', { argsSchema: { name: z.string() } }, ({ name }) => ({
      messages: [{ role: 'user', content: { type: 'text', text: `${own} greets ${name}` } }],
    }))
  }
}

const denylist = ['everything/prompts/args-prompt', 'everything/resources/demo://resource/dynamic/blob/*']
const entitlements = {
  default_plan: 'p',
  plans: { p: { allowlist: ['*'], denylist } },
  tenants: {},
}

describe('the resources and prompts of several servers at /mcp', function () {
  this.timeout(60_000)
  let gateway: TestGateway

  const everything = ofSuite(() => startEverything())
  const one = ofSuite(() => startSessionServer('one', notes('one')))
  const two = ofSuite(() => startSessionServer('two', notes('two')))
  before(async () => {
    gateway = await startTestGateway({
      targets: { everything: everything.url, one: one.url, 'number two': two.url },
      entitlements,
    })
  })

  after(() => gateway[Symbol.asyncDispose]())

  for (const [what, connect] of [
    ['SDK 1.x', connect1],
    ['SDK 2.x', connect2],
  ] as const) {
    describe(`with a client of ${what}`, () => {
      let client: Awaited<ReturnType<typeof connect>>

      before(async () => {
        client = await connect(`${gateway.url}/mcp`)
      })

      after(() => client.close())

      const textOf = async (uri: string): Promise<unknown> => {
        const [content] = (await client.readResource({ uri })).contents
        return content !== undefined && 'text' in content ? content.text : undefined
      }
      const codeOf = (act: Promise<unknown>): Promise<unknown> =>
        act.then(
          () => undefined,
          (error: { code?: unknown }) => error.code,
        )

      it('keep their URIs, except for URIs that two servers have', async () => {
        const { resources } = await client.listResources()
        const uris = resources.map(({ uri }) => uri).filter((uri) => !uri.startsWith('demo:'))
        expect(uris).to.deep.equal([
          'svc:one/note://shared',
          'note://one',
          'svc:number%20two/note://shared',
          'note://two',
        ])
        expect(await textOf('note://one')).to.equal('note://one of one')
        expect(await textOf('svc:one/note://shared')).to.equal('note://shared of one')
        expect(await textOf('svc:number%20two/note://shared')).to.equal('note://shared of two')
      })

      it('are not read from either server by a URI that both have', async () => {
        const error = await client.readResource({ uri: 'note://shared' }).catch((reason: unknown) => reason)
        expect(String(error)).to.include('svc:one/note://shared, svc:number%20two/note://shared')
      })

      it("are found by the servers' templates, and are unknown without one", async () => {
        const { resourceTemplates } = await client.listResourceTemplates()
        expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).to.deep.equal([
          'demo://resource/dynamic/text/{resourceId}',
          'one://{day}/page',
          'two://{day}/page',
        ])
        expect(await textOf('two://monday/page')).to.equal('two')
        expect(await textOf('demo://resource/dynamic/text/1')).to.be.a('string')
        expect(await codeOf(client.readResource({ uri: 'three://monday/page' }))).to.equal(-32602)
      })

      it('are refused if the server of the URI refuses them', async () => {
        const act = client.readResource({ uri: 'demo://resource/dynamic/blob/1' })
        expect(await codeOf(act)).to.equal(403)
      })

      it('include prompts by the names of their servers', async () => {
        const { prompts } = await client.listPrompts()
        const names = prompts.map(({ name }) => name.replace(/[0-9a-f]{16}$/, '…'))
        expect(names).to.include('one__greet').and.include('number_two_greet_…')
        expect(names).to.include('everything__simple-prompt').and.not.include('everything__args-prompt')
        const name = prompts.find((prompt) => prompt.name.startsWith('number_two'))?.name ?? ''
        const { messages } = await client.getPrompt({ name, arguments: { name: 'Ada' } })
        expect(messages[0]?.content).to.deep.equal({ type: 'text', text: 'two greets Ada' })
      })

      it('are completed by the server of the prompt or template', async () => {
        const { completion } = await client.complete({
          ref: { type: 'ref/resource', uri: 'two://{day}/page' },
          argument: { name: 'day', value: '' },
        })
        expect(completion.values).to.deep.equal(['twoday'])
        const ofPrompt = await client.complete({
          ref: { type: 'ref/prompt', name: 'everything__completable-prompt' },
          argument: { name: 'department', value: 'E' },
        })
        expect(ofPrompt.completion.values).to.include('Engineering')
      })
    })
  }

  it('are recorded by their own URIs and names', async () => {
    const client = await connect1(`${gateway.url}/mcp`)
    try {
      const before = gateway.records().length
      await client.readResource({ uri: 'svc:number%20two/note://shared' })
      await client.getPrompt({ name: 'one__greet', arguments: { name: 'Ada' } })
      // The client may open its GET stream later.
      const records = gateway
        .records()
        .slice(before)
        .filter(({ tool }) => !tool.startsWith('GET@'))
      expect(records.map(({ server, tool }) => `${server} ${tool}`)).to.deep.equal([
        'number two@1.0.0 note://shared@1.0.0',
        'one@1.0.0 greet@1.0.0',
      ])
    } finally {
      await client.close()
    }
  })
})

describe('a list that a server does not have', () => {
  it('is empty', async () => {
    await using server = await startSessionServer(
      'pages',
      ({ server }) => {
        for (const method of ['resources/templates/list', 'prompts/list']) server.removeRequestHandler(method)
      },
      { resources: {}, prompts: {} },
    )
    await using gateway = await startTestGateway({ targets: { pages: server.url } })
    await using client = await connect1(`${gateway.url}/mcp`)
    expect(await client.listResourceTemplates()).to.deep.equal({ resourceTemplates: [] })
    expect(await client.listPrompts()).to.deep.equal({ prompts: [] })
  })
})
