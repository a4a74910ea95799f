// The tool server behind the gateways: it keeps every call that it received, for the count. GET /calls returns them.
import { createServer } from 'node:http'

export interface ShopCall {
  readonly tool: string
  readonly key: string | undefined
  readonly trace: string | undefined
}

const calls: ShopCall[] = []
/** Milliseconds that a call takes, at most. */
const longest = 30

const server = createServer(async (request, response) => {
  const { method, url = '', headers } = request
  response.setHeader('content-type', 'application/json')
  if (method === 'GET') {
    response.end(JSON.stringify(calls))
    return
  }
  // Counted on arrival, whatever becomes of the response.
  const number = calls.push({
    tool: url.split('/').at(-1) ?? '',
    key: headers['idempotency-key']?.toString(),
    trace: headers.traceparent?.toString().split('-')[1],
  })
  request.resume()
  setTimeout(() => response.end(JSON.stringify({ number })), Math.random() * longest)
})
server.listen(Number(process.env['PORT']), '127.0.0.1', () => console.log('listening'))
