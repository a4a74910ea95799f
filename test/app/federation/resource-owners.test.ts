import { type McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { connect1 } from '../../support/sdk-clients.js'
import { type SessionServer, startSessionServer } from '../../support/tool-servers.js'

const uri = 'file:///policies/travel.md'

/** Forms in which a server may list the URI. */
const shares = {
  nothing: (server: McpServer, own: string): void => {
    server.registerResource('other', `other://${own}`, {}, () => ({ contents: [{ uri, text: own }] }))
  },
  template: (server: McpServer, own: string): void => {
    const template = new ResourceTemplate('file:///{+path}', { list: undefined })
    server.registerResource('files', template, {}, () => ({ contents: [{ uri, text: own }] }))
  },
  entry: (server: McpServer, own: string): void => {
    server.registerResource('travel', uri, {}, () => ({ contents: [{ uri, text: own }] }))
  },
} as const

type Share = keyof typeof shares

const all = Object.keys(shares) as Share[]
const pairs = all.flatMap((first) => all.map((second) => [first, second] as const))

describe('a URI at several servers', function () {
  this.timeout(60_000)
  const servers: SessionServer[] = []
  let gateway: TestGateway

  before(async () => {
    const targets: Record<string, string> = {}
    for (const place of ['first', 'second']) {
      for (const share of all) {
        const name = `${place}-${share}`
        const server = await startSessionServer(name, (mcp) => shares[share](mcp, name))
        servers.push(server)
        targets[name] = server.url
      }
    }
    const groups = Object.fromEntries(
      pairs.map(([first, second]) => [`${first}-${second}`, [`first-${first}`, `second-${second}`]]),
    )
    gateway = await startTestGateway({ targets, federation: { groups } })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    for (const server of servers) await server[Symbol.asyncDispose]()
  })

  /** The server that a read of the URI reaches; undefined if it is refused. */
  const readerOf = async (group: string, listsFirst: boolean): Promise<unknown> => {
    const client = await connect1(`${gateway.url}/mcp/${group}`)
    try {
      if (listsFirst) await client.listResources()
      const { contents } = await client.readResource({ uri })
      return Reflect.get(contents[0] ?? {}, 'text')
    } catch {
      return undefined
    } finally {
      await client.close()
    }
  }

  for (const [first, second] of pairs) {
    const owner =
      first !== 'nothing' ? `first-${first}` : second !== 'nothing' ? `second-${second}` : undefined
    const isAmbiguous = first === 'entry' && second === 'entry'
    const expected = isAmbiguous ? undefined : owner
    it(`belongs to the first server that has it: ${first} before ${second}`, async () => {
      for (const listsFirst of [false, true])
        expect(await readerOf(`${first}-${second}`, listsFirst), `${listsFirst}`).to.equal(expected)
      const isConflict = first !== 'nothing' && second !== 'nothing' && !isAmbiguous
      const reported = gateway.log.lines.some((line) =>
        JSON.stringify(line).includes(`"first-${first}","second-${second}"`),
      )
      expect(reported).to.equal(isConflict)
    })
  }

  it('is listed below the name of its server if a template of an earlier server matches it', async () => {
    const client = await connect1(`${gateway.url}/mcp/template-entry`)
    try {
      const { resources } = await client.listResources()
      expect(resources.map((resource) => resource.uri)).to.deep.equal([`svc:second-entry/${uri}`])
      const { contents } = await client.readResource({ uri: `svc:second-entry/${uri}` })
      expect(contents[0]).to.include({ text: 'second-entry' })
    } finally {
      await client.close()
    }
  })
})
