// What processes learn of their clients, and what they may ask them, with clients and processes of both kinds of revisions.
import type { Client, ElicitResult } from '@modelcontextprotocol/client'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { startTestGateway } from '../../../support/gateway.js'
import { connect1, connect2 } from '../../../support/sdk-clients.js'
import { scriptedTarget, until } from '../../../support/stdio-target.js'

const extensions = { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } }
const elicitation = {}
const given: ElicitResult = { action: 'accept', content: { name: 'Ada' } }

interface Connected {
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>
  close(): Promise<void>
}

const clients = {
  'the handshake': (url: string) =>
    connect1(url, {
      capabilities: { elicitation, extensions },
      prepare: (client) => client.setRequestHandler(ElicitRequestSchema, () => given),
    }),
  '2026-07-28': async (url: string) => {
    const client: Client = await connect2(url, { capabilities: { elicitation, extensions } })
    client.setRequestHandler('elicitation/create', () => given)
    return client
  },
}
const processes = { 'the handshake': ['', 'ask'], '2026-07-28': ['stateless', 'input'] } as const

/** What a process learns, by client, process and `isolate`. */
const rows: [keyof typeof clients, keyof typeof processes, 'gateway' | 'session', 'all' | 'nothing'][] = [
  ['the handshake', 'the handshake', 'session', 'all'],
  ['the handshake', 'the handshake', 'gateway', 'nothing'],
  ['the handshake', '2026-07-28', 'session', 'all'],
  ['the handshake', '2026-07-28', 'gateway', 'all'],
  ['2026-07-28', '2026-07-28', 'session', 'all'],
  ['2026-07-28', '2026-07-28', 'gateway', 'all'],
  ['2026-07-28', 'the handshake', 'session', 'all'],
  ['2026-07-28', 'the handshake', 'gateway', 'nothing'],
]
const capabilities = { all: { elicitation, extensions }, nothing: {} }

for (const [client, process, isolate, declared] of rows) {
  describe(`a client of ${client} and a process of ${process} with isolate: ${isolate}`, () => {
    for (const [path, prefix] of [
      ['/mcp', 'files__'],
      ['/mcp/files', ''],
    ] as const) {
      const isAsked = declared === 'all'
      it(`at ${path}: the process gets ${declared} of the client's capabilities, and ${isAsked ? 'input' : 'an error for each question'}`, async () => {
        const [mode, asking] = processes[process]
        await using gateway = await startTestGateway({
          targets: { files: scriptedTarget(mode, { isolate }) },
        })
        const connected: Connected = await clients[client](`${gateway.url}${path}`)
        const call = (name: string): Promise<string> =>
          connected.callTool({ name: `${prefix}${name}`, arguments: {} }).then(
            (result) => (result as { content: { text: string }[] }).content[0]?.text ?? '',
            ({ message }: Error) => message,
          )
        expect(JSON.parse(await call('capabilities'))).to.deep.equal(capabilities[declared])
        const said = await call(asking)
        if (isAsked) expect(said).to.contain('Ada')
        else expect(said).to.match(/-32601/)
        await connected.close()
      })
    }
  })
}

describe('a process with isolate: session that clients of 2026-07-28 with one identity share', () => {
  it('gets an error for a question while several calls run, as it does not say whose it is', async () => {
    const files = scriptedTarget('', { isolate: 'session', max_processes: 1 })
    await using gateway = await startTestGateway({ targets: { files } })
    const [one, other] = [
      await clients['2026-07-28'](`${gateway.url}/mcp`),
      await clients['2026-07-28'](`${gateway.url}/mcp`),
    ]
    const call = (client: Client, name: string): Promise<string> =>
      client.callTool({ name: `files__${name}`, arguments: {} }).then((result) => JSON.stringify(result))
    const held = call(one, 'hold')
    await until(async () => (await call(other, 'running')).includes('2'))
    expect(await call(other, 'ask')).to.contain('-32601')
    await call(other, 'release')
    await held
    expect(await call(other, 'ask')).to.contain('Ada')
    await one.close()
    await other.close()
  })
})
