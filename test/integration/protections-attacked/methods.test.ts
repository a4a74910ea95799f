// Attacks on the rules on methods and apps: each unknown method in each form at each face, and each way to hand a client the
// interface of a tool. No server gets such a method, no client such an interface, and each leaves a record.
import { expect } from 'chai'
import { postMcp } from '../../support/mcp-post.js'
import { type Face, type Fields, messageIn, startRawServer } from './raw-server.js'

const mark = 'IGNORE-ALL'

const unknown: readonly string[] = [
  ...[
    'vendor/wipe',
    'rpc.discover',
    'rpc.',
    'tools/call ',
    ' tools/call',
    'Tools/Call',
    'tools.call',
    'tools/call\u0000',
    'toolscall',
  ],
  ...[
    'tools/callx',
    'tools/',
    'tasks/',
    'tasks/wipe',
    'TASKS/LIST',
    'resources/Read',
    'ſampling',
    'completion/complete/',
    'logging/setlevel',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    'notifications/vendor',
    'Notifications/Cancelled',
    'notifications/',
    'notifications/message',
  ],
  ...[
    'sampling/createMessage',
    'elicitation/create',
    'roots/list',
    'Initialize',
    'ping\u200b',
    'x'.repeat(256),
    'x'.repeat(257),
    '',
  ],
]
const faces: readonly Face[] = ['handshake', 'handshake, events', 'stateless', 'several servers']

const page = (uri: string, more: Fields = {}): Fields => ({ uri, mimeType: 'text/html', text: mark, ...more })
const pages: Readonly<Record<string, Fields>> = {
  'a page': page('ui://a'),
  'other letters': page('UI://a'),
  'a space before it': page(' ui://a'),
  'a line break in it': page('u\ni://a'),
  'a character that is not shown': page('u\u200bi://a'),
  'full width': page('ｕｉ://a'),
  'another scheme with the type of an app': page('https://a.example/', {
    mimeType: 'text/html;profile=mcp-app',
  }),
  'the type in other letters': page('file:///a', { mimeType: 'TEXT/HTML; Profile="mcp-app"' }),
  'the type of another host': page('file:///a', { mimeType: 'text/html+skybridge' }),
  bytes: { uri: 'ui://a', mimeType: 'text/html', blob: mark },
}

/** The results in which a page can come; the method and its params. */
const places: Readonly<
  Record<string, (one: Fields) => readonly [method: string, params: Fields, result: object]>
> = {
  'what is read': (one) => ['resources/read', { uri: 'file:///a' }, { contents: [one] }],
  'what a tool returns': (one) => [
    'tools/call',
    { name: 'a', arguments: {} },
    { content: [{ type: 'resource', resource: one }] },
  ],
  'contents of a tool': (one) => ['tools/call', { name: 'a', arguments: {} }, { contents: [one] }],
  'a prompt': (one) => [
    'prompts/get',
    { name: 'a' },
    { messages: [{ role: 'user', content: { type: 'resource', resource: one } }] },
  ],
  'the result of a task': (one) => [
    'tasks/get',
    { taskId: 't' },
    { taskId: 't', status: 'completed', result: { content: [{ type: 'resource', resource: one }] } },
  ],
  'another response': (one) => ['ping', {}, { content: [{ type: 'resource', resource: one }] }],
  'structured content': (one) => [
    'tools/call',
    { name: 'a', arguments: {} },
    { content: [], structuredContent: { page: one } },
  ],
}

describe('methods and apps under attack', function () {
  this.timeout(120_000)

  it('that MCP does not have reach no server, in whatever form and at whichever face', async () => {
    await using server = await startRawServer({ protections: { methods: {} } })
    const passed: string[] = []
    for (const face of faces) {
      await server.ask(face, 'ping')
      for (const method of unknown) {
        // As a header it cannot be sent.
        if (face === 'stateless' && !/^[\x21-\x7e]+$/.test(method)) continue
        server.methods.length = 0
        const before = server.gateway.records().length
        const got = await server.ask(face, method)
        if (messageIn(got)['error'] === undefined) passed.push(`${method} at ${face}: ${got}`)
        if (server.methods.length > 0)
          passed.push(`${method} at ${face} was sent as ${server.methods.join()}`)
        const records = JSON.stringify(server.gateway.records().slice(before))
        if (!/"decision":"deny"|"status":"error"/.test(records))
          passed.push(`${method} at ${face}: without a record ${got}`)
      }
    }
    const send = (message: object): Promise<Response> => postMcp(`${server.gateway.url}/mcp/files`, message)
    for (const method of unknown) {
      server.methods.length = 0
      await (await send({ jsonrpc: '2.0', method })).text()
      if (server.methods.length > 0) passed.push(`${method} as a notification`)
    }
    expect(passed.join('\n')).to.equal('')
  })

  it('interfaces of tools reach no client, in whatever place and however they are written', async () => {
    await using server = await startRawServer({ protections: { methods: { apps: 'deny' } } })
    const passed: string[] = []
    for (const [place, of] of Object.entries(places)) {
      for (const [kind, one] of Object.entries(pages)) {
        const [method, params, result] = of(one)
        server.results[method] = () => JSON.stringify(result)
        for (const face of ['handshake', 'handshake, events', 'a resumed stream', 'invoke'] as const) {
          if (face !== 'handshake' && kind !== 'a page') continue
          if (face === 'invoke' && method !== 'tools/call') continue
          const got = await server.ask(face, method, params)
          if (got.includes(mark)) passed.push(`${kind} in ${place} at ${face}`)
        }
        delete server.results[method]
      }
    }
    for (const uri of ['ui://a', 'UI://a', ' ui://a', 'u\ni://a', 'u\u200bi://a']) {
      server.ran.length = server.methods.length = 0
      await server.ask('handshake', 'resources/read', { uri })
      if (server.methods.length > 0) passed.push(`read of ${JSON.stringify(uri)}`)
    }
    expect(passed.join('\n')).to.equal('')
  })
})
