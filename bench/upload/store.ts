// Control plane and store of the upload benchmark: discards the uploaded bytes while accepting is enabled. Otherwise it
// neither responds nor reads, so that the upload stalls.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listen } from '../gateway/listen.js'
import { respondToParent } from '../measure/child.js'

const bodies = new Set<IncomingMessage>()
const held: (() => void)[] = []
let takes = false
let bytes = 0

const server = createServer((request, response) => {
  if (request.method === 'PUT') take(request, response)
  else void respondWithUrl(request, response)
})
const port = await listen(server)
respondToParent(port, {
  store: (input) => {
    takes = input.takes
    for (const body of bodies) takes ? body.resume() : body.pause()
    for (const respond of takes ? held.splice(0) : []) respond()
    return bytes
  },
})

async function respondWithUrl(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = ''
  for await (const piece of request) text += piece
  const { key }: { key: string } = JSON.parse(text)
  const respond = () => response.end(JSON.stringify({ url: `http://127.0.0.1:${port}/${key}` }))
  if (takes) respond()
  else held.push(respond)
}

function take(request: IncomingMessage, response: ServerResponse): void {
  bodies.add(request)
  request.on('data', (piece: Buffer) => {
    bytes += piece.length
  })
  request.on('end', () => {
    bodies.delete(request)
    response.end()
  })
  if (!takes) request.pause()
}
