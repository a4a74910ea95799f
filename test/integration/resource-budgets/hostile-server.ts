// Servers that behave correctly except for one request, whose response has a hostile shape.
import { createServer, type ServerResponse } from 'node:http'
import { listenOnLoopback } from '../../support/loopback.js'
import type { Place } from './shapes.js'
import { pieceByPiece } from './writing.js'

/** The shape that the next attack sends. */
interface Attack {
  /** The JSON-RPC method whose response has the text; undefined for any POST. */
  readonly rpc: string | undefined
  readonly place: Place
  readonly pauseMs: number
  text(): Iterable<string>
}

export interface HostileServer extends AsyncDisposable {
  /** Of the target of that name. */
  url(target: string): string
  attack: Attack | undefined
}

type Request = { readonly id?: unknown; readonly method?: string } | undefined

export async function startHostileServer(): Promise<HostileServer> {
  const server = createServer((message, response) => {
    const target = message.url?.split('/')[1]
    // The gateway may break off, which the test allows.
    response.on('error', () => undefined)
    const pieces: Buffer[] = []
    message.on('data', (piece: Buffer) => pieces.push(piece))
    message.once('end', () => {
      const text = Buffer.concat(pieces).toString()
      const request = text === '' ? undefined : (JSON.parse(text) as Request)
      void respond(hostile.attack, target, message.method ?? '', request, response)
    })
  })
  const listening = await listenOnLoopback(server)
  const hostile: HostileServer = {
    url: (target) => `${listening.url}/${target}`,
    attack: undefined,
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
  return hostile
}

async function respond(
  attack: Attack | undefined,
  target: string | undefined,
  method: string,
  request: Request,
  response: ServerResponse,
): Promise<void> {
  const write = (pieces: Iterable<string>) => pieceByPiece(response, pieces, attack?.pauseMs ?? 0)
  if (target === 'plain' || target === 'good') {
    response.writeHead(200, { 'content-type': 'application/json' })
    if (target === 'plain' && attack !== undefined) await write(attack.text())
    response.end(target === 'good' ? '{"isGood":true}' : '')
    return
  }
  if (method === 'GET' && target === 'stream' && attack !== undefined) {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (attack.place === 'lines') {
      await write(asEvents(attack.text()))
      response.end()
      return
    }
    await write(['data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":'])
    await write(asData(attack.text()))
    response.end('}}\n\n')
    return
  }
  if (method !== 'POST') {
    response.writeHead(405).end()
    return
  }
  if (request?.id === undefined) {
    response.writeHead(202).end()
    return
  }
  const isAttacked = attack !== undefined && attack.rpc === request.method
  const whole = JSON.stringify({ jsonrpc: '2.0', id: request.id, result: resultOf(request.method) })
  if (!isAttacked) {
    const headers = { 'content-type': 'application/json', 'mcp-session-id': 'session' }
    response.writeHead(200, headers).end(whole)
    return
  }
  const isEvent = target === 'events'
  response.writeHead(200, { 'content-type': isEvent ? 'text/event-stream' : 'application/json' })
  if (attack.place === 'lines') {
    await write(asEvents(attack.text()))
    response.end(`data: ${whole}\n\n`)
    return
  }
  const [open, close] = around(attack.place, request.id)
  await write([isEvent ? 'data: ' : '', open])
  await write(isEvent ? asData(attack.text()) : attack.text())
  response.end(`${close}${isEvent ? '\n\n' : ''}`)
}

/** The texts around the shape in the response to the request `id`. */
export function around(place: Place, id: unknown): readonly [open: string, close: string] {
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`
  switch (place) {
    case 'pages':
      return [`${head}{"nextCursor":"more","tools":`, '}}']
    case 'id':
      return [`${head}{"task":{"status":"working","taskId":`, '}}}']
    case 'rpc id':
      return ['{"jsonrpc":"2.0","id":', ',"result":{}}']
    default:
      return [`${head}{"content":[],"structuredContent":{"value":`, '},"tools":[]}}']
  }
}

function resultOf(method: string | undefined): object {
  if (method === 'tools/list') return { tools: [{ name: 'attack', inputSchema: { type: 'object' } }] }
  if (method !== 'initialize') return {}
  const serverInfo = { name: 'hostile', version: '1.0.0' }
  return { protocolVersion: '2025-11-25', capabilities: { tools: {}, logging: {} }, serverInfo }
}

/** Line ends in the text of an event begin another line of its data. */
function* asData(pieces: Iterable<string>): Iterable<string> {
  for (const piece of pieces) yield piece.replaceAll('\n', '\ndata:')
}

/** Each line is an event. */
function* asEvents(pieces: Iterable<string>): Iterable<string> {
  for (const piece of pieces) yield piece.replace(/^(.+)$/gm, 'data: $1\n')
}
