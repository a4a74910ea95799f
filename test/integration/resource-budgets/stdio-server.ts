// node stdio-server.js OUTPUT SHAPE BYTES: an MCP server over stdio that responds to every tool call with the shape, or writes the
// shape to standard error and then responds.
import { createInterface } from 'node:readline'
import { around } from './hostile-server.js'
import { type Shape, type ShapeName, shapes } from './shapes.js'
import { pieceByPiece } from './writing.js'

const [, , output = '', shape = '', bytes = ''] = process.argv
const { place, pauseMs, text }: Shape = shapes[shape as ShapeName]

/** A message is a line. */
function* onOneLine(pieces: Iterable<string>): Iterable<string> {
  for (const piece of pieces) yield piece.replaceAll('\n', ' ')
}

for await (const line of createInterface(process.stdin)) {
  const { id, method } = JSON.parse(line) as { id?: unknown; method?: string }
  if (id === undefined) continue
  let result: object = { content: [] }
  if (method === 'tools/call') {
    if (output === 'stderr') await pieceByPiece(process.stderr, text(Number(bytes)), pauseMs)
    else if (place === 'lines') await pieceByPiece(process.stdout, text(Number(bytes)), pauseMs)
    else {
      const [open, close] = around(place, id)
      await pieceByPiece(process.stdout, [open], 0)
      await pieceByPiece(process.stdout, onOneLine(text(Number(bytes))), pauseMs)
      await pieceByPiece(process.stdout, [`${close}\n`], 0)
      continue
    }
  } else if (method === 'initialize') {
    const serverInfo = { name: 'hostile', version: '1.0.0' }
    result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
  } else result = { tools: [] }
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`)
}
