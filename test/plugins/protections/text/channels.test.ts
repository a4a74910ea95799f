// Ways in which a server can send one text: none brings an attack past `results: strip`, or a response past its labels.
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { info, type Message } from '../../../support/mcp-server.js'
import { startUpstream } from '../../../support/upstream.js'
import { reply, rpc, traces } from './channels/channel.js'
import { listChannels, mcpChannels } from './channels/mcp-channels.js'
import { plainChannels } from './channels/plain-channels.js'

const ways = [
  {
    path: '/mcp/files',
    request: { method: 'tools/call', params: { name: 'echo', arguments: {} } },
    rows: mcpChannels,
  },
  { path: '/mcp/files', request: { method: 'tools/list' }, rows: listChannels },
  { path: '/mcp/files/echo@1.0.0', request: undefined, rows: plainChannels },
].flatMap(({ path, request, rows }) =>
  rows.map(([what, send]) => ({
    what,
    send,
    path,
    request,
    name: `${request?.method ?? 'invoke'}, ${what}`,
  })),
)
type Way = (typeof ways)[number]

describe('a text of a server', function () {
  this.timeout(60_000)
  /** Of each way, what callers got. */
  const seen = new Map<Way, { readonly isShown: boolean; readonly isLabelled: boolean }>()
  /** The bodies that the server sent, by the way. */
  const sent: Buffer[] = []

  before(async () => {
    await using issuer = await TestIssuer.start()
    await using upstream = await startUpstream(({ body, headers }, response) => {
      const at = Number(headers['x-agent-ref'])
      const message = JSON.parse(body || '{}') as Message
      const end = response.end.bind(response)
      if (message['method'] === 'initialize') rpc(() => reply(message, info))(response, message)
      else if (Number.isNaN(at)) end()
      else {
        response.end = ((bytes: string | Uint8Array) => {
          sent[at] = Buffer.from(bytes)
          return end(bytes)
        }) as typeof response.end
        ways[at]?.send(response, message)
      }
    })
    const targets = { files: upstream.url, mail: upstream.url }
    await using stripping = await startTestGateway({
      targets,
      protections: { text: { results: 'strip' } },
    } as never)
    await using labelling = await startTestGateway({
      targets,
      authn: { oidc: issuer.oidc },
      protections: {
        text: { results: 'off' },
        flows: {
          labels: [{ label: 'untrusted', detector: 'attack' }],
          sinks: { external: ['mail/*'] },
          deny_flow: ['untrusted -> external'],
          effect: 'deny',
        },
      },
    } as never)
    const observe = async (way: Way, at: number) => {
      const authorization = `Bearer ${await issuer.sign({ sub: way.name, tenant: 'acme' })}`
      const isShown = isIn(await received(stripping, way, at), at)
      const isDelivered = isIn(await received(labelling, way, at, { authorization }), at)
      const { status } = await labelling.invoke('/mcp/mail/send@1', {}, { authorization })
      seen.set(way, { isShown, isLabelled: !isDelivered || status === 403 })
    }
    await Promise.all(ways.map(observe))
  })

  async function received(gateway: TestGateway, { path, request }: Way, at: number, headers = {}) {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'x-agent-ref': String(at),
        ...headers,
      },
      body: JSON.stringify(request === undefined ? {} : { jsonrpc: '2.0', id: 1, ...request }),
    })
    // A stream that is broken off has brought nothing.
    return Buffer.from(await response.arrayBuffer().catch(() => new ArrayBuffer(0)))
  }

  function isIn(bytes: Buffer, at: number): boolean {
    const data = bytes.toString()
    const readings = [data, bytes.toString('utf16le'), data.split(/\n?data: |\n\n/).join(' ')]
    const hasTrace = readings.some((text) => traces.some((trace) => squeezed(text).includes(squeezed(trace))))
    return hasTrace || bytes.includes(sent[at] ?? '')
  }

  for (const way of ways) {
    it(`does not bring an attack past a gateway that strips it, nor past its label: ${way.name}`, () =>
      expect(seen.get(way)).to.deep.equal({ isShown: false, isLabelled: true }))
  }
})

function squeezed(text: string): string {
  return text
    .normalize('NFKC')
    .replace(/[^A-Za-z0-9+/]/g, '')
    .toLowerCase()
}
