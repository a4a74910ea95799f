// node stdio-server.js SHAPE BYTES: an MCP server over stdio that responds to every tool call with the shape.
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { around } from './hostile-server.js'
import { type ShapeName, shapes } from './shapes.js'

const [, , shape = '', bytes = ''] = process.argv
const { place, text } = shapes[shape as ShapeName]

async function write(pieces: Iterable<string>): Promise<void> {
  for (const piece of pieces)
    if (!process.stdout.write(piece.replaceAll('\n', ' '))) await once(process.stdout, 'drain')
}

for await (const line of createInterface(process.stdin)) {
  const { id, method } = JSON.parse(line) as { id?: unknown; method?: string }
  if (id === undefined) continue
  if (method === 'tools/call') {
    const [open, close] = around(place, id)
    await write([open])
    await write(text(Number(bytes)))
    await write([close])
  } else {
    const serverInfo = { name: 'hostile', version: '1.0.0' }
    const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
    await write([
      JSON.stringify({ jsonrpc: '2.0', id, result: method === 'initialize' ? result : { tools: [] } }),
    ])
  }
  process.stdout.write('\n')
}
