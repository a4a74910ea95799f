// The tool server of the benchmarks: always the same small JSON response, over a raw socket with a scan for the end of the
// request, so that its cost is negligible. At its root it speaks MCP.
import { createServer, type Socket } from 'node:net'
import { respondToParent } from '../measure/child.js'
import { listen } from './listen.js'
import { SERVER, VERSION } from './requests.js'

const content = [{ type: 'text', text: 'Three invoices are open, the oldest since 14 days.' }]
const found = {
  invoices: [
    { id: 'inv-2041', amount: 129900, currency: 'EUR', due: '2026-03-14', paid: false },
    { id: 'inv-2057', amount: 48000, currency: 'EUR', due: '2026-03-21', paid: false },
  ],
  next: null,
}
const INVOKE_RESPONSE = responseOf({ content, ...found })
const TOOL_RESULT = responseOf({
  jsonrpc: '2.0',
  // Every call of the load generator has this id.
  id: 1,
  result: { content, structuredContent: found, resultType: 'complete' },
})

const server = createServer({ noDelay: true }, (socket) => {
  respondToEach(socket)
  // A client that disconnects in the middle of an exchange is the end of a round, not an error.
  socket.on('error', () => socket.destroy())
})
respondToParent(await listen(server), {})

let sessions = 0

function respondToEach(socket: Socket): void {
  let held: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    for (;;) {
      const end = held.indexOf('\r\n\r\n')
      if (end === -1) return
      const head = held.toString('latin1', 0, end)
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? '0'
      const next = end + 4 + Number(length)
      if (held.length < next) return
      socket.write(head.startsWith('POST / ') ? mcpResponse(held.subarray(end + 4, next)) : INVOKE_RESPONSE)
      held = held.subarray(next)
    }
  })
}

function mcpResponse(body: Buffer): Buffer {
  if (body.includes('"tools/call"')) return TOOL_RESULT
  const { id } = JSON.parse(body.toString())
  const result = {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: SERVER, version: VERSION },
  }
  return responseOf({ jsonrpc: '2.0', id, result }, `mcp-session-id: ${++sessions}\r\n`)
}

function responseOf(value: object, headers = ''): Buffer {
  const body = JSON.stringify(value)
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
      `${headers}connection: keep-alive\r\n\r\n${body}`,
  )
}
