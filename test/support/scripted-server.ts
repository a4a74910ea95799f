// An MCP server over stdio that fails as a test requires. Arguments: `stateless` for a server of 2026-07-28 alone,
// `silent`, `rubbish`, `exit`, `wait=FILE` for how it starts, `deaf` and `fragile` for one that ignores requests before the
// handshake, or exits. Its tools are named after what they do.
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'

type Fields = Record<string, unknown>

const [mode = 'good', awaited = ''] = (process.argv[2] ?? '').split('=')
const serverInfo = { name: 'scripted', version: '3.1.0' }
const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true },
  logging: {},
}
const modern = { resultType: 'complete', ttlMs: 1000, cacheScope: 'private' }
let running = 0
let mostRunning = 0
const held: (() => void)[] = []

const send = (message: Fields): boolean =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const text = (said: string): Fields => ({ content: [{ type: 'text', text: said }] })

const question = {
  method: 'elicitation/create',
  params: { message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
}

/** What the client of the handshake can do. */
let declared: unknown

const tools: Record<string, (args: Fields, meta: Fields, params: Fields) => Fields | Promise<Fields>> = {
  echo: ({ said }) => text(String(said)),
  pid: () => text(String(process.pid)),
  env: () => text(JSON.stringify(process.env)),
  argv: () => text(JSON.stringify(process.argv.slice(2))),
  cwd: () => text(process.cwd()),
  exit: () => process.exit(3),
  hang: () => new Promise(() => undefined),
  freeze: () => {
    for (;;);
  },
  rubbish: () => {
    process.stdout.write('a banner\n{"no":"message"}\n\u0000\n[]\n')
    return text('after rubbish')
  },
  flood: () => {
    for (let line = 0; line < 20_000; line++)
      process.stderr.write(`line ${line} of ${process.env['TOKEN'] ?? process.argv[3]}\n`)
    return text('after flood')
  },
  long: () => {
    process.stdout.write('x'.repeat(3_000_000))
    return text('never read')
  },
  // A child of the same process group, without a pipe to its parent.
  fork: () => {
    const child = spawn(process.execPath, ['-e', 'process.on("SIGTERM",()=>{});setInterval(()=>{},1000)'], {
      stdio: 'ignore',
    })
    return text(String(child.pid))
  },
  // A child outside the group, in a session of its own.
  escape: () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(()=>{},1000)'], {
      stdio: 'ignore',
      detached: true,
    })
    return text(String(child.pid))
  },
  progress: (_args, { progressToken }) => {
    for (const progress of [1, 2]) {
      send({ method: 'notifications/progress', params: { progressToken, progress } })
    }
    return text('done')
  },
  // Responds when another call releases it.
  hold: () => new Promise<Fields>((resolve) => held.push(() => resolve(text('released')))),
  release: () => {
    for (const go of held.splice(0)) go()
    return text(String(mostRunning))
  },
  running: () => text(String(running)),
  cancelled: () => text(String(cancelled.length)),
  changed: () => {
    change('toolsListChanged', 'notifications/tools/list_changed', {})
    change('resourceSubscriptions', 'notifications/resources/updated', { uri: 'test://a' })
    send({ method: 'notifications/message', params: { level: 'info', data: 'from somebody' } })
    return text('told')
  },
  // Asks by a result of 2026-07-28, until the request is repeated with a response.
  input: (_args, _meta, { inputResponses }) =>
    inputResponses === undefined
      ? { resultType: 'input_required', inputRequests: { name: question }, requestState: 'x' }
      : text(JSON.stringify(inputResponses)),
  capabilities: (_args, meta) =>
    text(JSON.stringify(meta['io.modelcontextprotocol/clientCapabilities'] ?? declared)),
  ask: async () => {
    const responded = new Promise<unknown>((resolve) => asked.set('q1', resolve))
    send({ id: 'q1', ...question })
    return text(JSON.stringify(await responded))
  },
}
/** Sends the notification: up to 2025-11-25 once, from 2026-07-28 on to each stream that asked for it. */
function change(filter: string, method: string, params: Fields): void {
  if (mode !== 'stateless') send({ method, params })
  for (const [id, wanted] of listening) {
    const value = wanted[filter]
    if (value !== true && !(Array.isArray(value) && value.includes(params['uri']))) continue
    send({ method, params: { ...params, _meta: { 'io.modelcontextprotocol/subscriptionId': id } } })
  }
}

/** Open streams of changes, and what each wants. */
const cancelled: unknown[] = []
const listening = new Map<unknown, Fields>()
const asked = new Map<unknown, (response: unknown) => void>()
const subscribed: unknown[] = []

async function resultOf({ method, params }: Fields): Promise<Fields | undefined> {
  const given = (params ?? {}) as Fields
  const meta = (given['_meta'] ?? {}) as Fields
  switch (method) {
    case 'initialize':
      if (mode === 'stateless' || typeof given['capabilities'] !== 'object') return undefined
      declared = given['capabilities']
      return { protocolVersion: '2025-06-18', capabilities, serverInfo, instructions: 'be kind' }
    case 'server/discover':
      if (mode !== 'stateless') return undefined
      return {
        resultType: 'complete',
        supportedVersions: ['2026-07-28'],
        capabilities,
        _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
      }
    case 'ping':
      return {}
    case 'tools/list':
      return { tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } })) }
    case 'resources/subscribe':
      subscribed.push(given['uri'])
      return {}
    case 'resources/unsubscribe':
      return {}
    case 'resources/read':
      return { contents: [{ uri: given['uri'], text: JSON.stringify({ subscribed, meta }) }] }
    case 'tools/call':
      return tools[String(given['name'])]?.((given['arguments'] ?? {}) as Fields, meta, given)
    default:
      return undefined
  }
}

/** As a server in another language would write it. */
const exact = '{"content":[],"structuredContent":{"n":12345678901234567890}}'

async function response(message: Fields): Promise<void> {
  if (message['method'] === undefined)
    return asked.get(message['id'])?.(message['result'] ?? message['error'])
  const params = (message['params'] ?? {}) as Fields
  if (message['method'] === 'notifications/cancelled') {
    listening.delete(params['requestId'])
    cancelled.push(params['requestId'])
  }
  if (message['id'] === undefined) return
  if (mode === 'stateless' && message['method'] === 'subscriptions/listen') {
    listening.set(message['id'], params['notifications'] as Fields)
    return
  }
  if (params['name'] === 'exact') {
    process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(message['id'])},"result":${exact}}\n`)
    return
  }
  if (params['name'] === 'write') {
    await writePieces((params['arguments'] as { pieces: string[] }).pieces, message['id'])
    return
  }
  if (message['method'] === 'server/discover' && (mode === 'fragile' || mode === 'deaf')) {
    writeSync(2, 'probed\n')
    if (mode === 'fragile') process.exit(5)
    return
  }
  running++
  mostRunning = Math.max(mostRunning, running)
  const result = await resultOf(message)
  running--
  const isModern = mode === 'stateless' && result !== undefined
  if (result === undefined) send({ id: message['id'], error: { code: -32601, message: 'Method not found' } })
  else send({ id: message['id'], result: isModern ? { ...modern, ...result } : result })
}

/** Base64 of the pieces of a line, in which `"$id"` stands for the id of the request. */
async function writePieces(encoded: readonly string[], id: unknown): Promise<void> {
  const pieces = encoded.map((piece) => Buffer.from(piece, 'base64'))
  const line = Buffer.from(`${Buffer.concat(pieces).toString().replace('"$id"', JSON.stringify(id))}\n`)
  let start = 0
  for (const piece of pieces) {
    process.stdout.write(line.subarray(start, start + piece.length))
    start += piece.length
    await new Promise(setImmediate)
  }
  process.stdout.write(line.subarray(start))
}

if (mode === 'exit') {
  process.stderr.write(`cannot find ${process.env['TOKEN']}\n`)
  process.exit(4)
}
if (mode === 'rubbish') setInterval(() => process.stdout.write('working...\n'), 5)
else {
  const lines = createInterface(process.stdin)
  const queue: Fields[] = []
  const isWaiting = (): boolean => mode === 'silent' || (mode === 'wait' && !existsSync(awaited))
  lines.on('line', (line) => {
    const message = JSON.parse(line) as Fields
    if (mode === 'wait') writeFileSync(`${awaited}.asked`, '')
    if (isWaiting()) queue.push(message)
    else void response(message)
  })
  const check = setInterval(() => {
    if (isWaiting()) return
    clearInterval(check)
    for (const message of queue.splice(0)) void response(message)
  }, 10)
  lines.on('close', () => process.exit())
}
