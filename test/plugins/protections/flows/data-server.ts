// A server that returns labelled data by every method, in every form: at once, later, on a stream that breaks off, as an error.
import type { ServerResponse } from 'node:http'
import { event, type HttpResponse, info, json, result } from '../../../support/mcp-server.js'

export const token = 'ghp_0123456789abcdefghijABCDEFGHIJ012345'
export const said = (text: string) => ({ content: [{ type: 'text', text }] })

/** `streams` gets the open streams, by the caller's `x-agent-ref`. */
export function dataServer(streams: Map<string, ServerResponse>): HttpResponse {
  return (message, response, { method: verb, headers }) => {
    const method = String(message['method'] ?? '')
    const params = (message['params'] ?? {}) as Record<string, unknown>
    const open = () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      streams.set(String(headers['x-agent-ref']), response)
    }
    if (verb === 'GET') {
      open()
      const last = headers['last-event-id']
      if (last === undefined) response.write(': open\n\n')
      else
        response.end(
          `id: 2\n${event({ jsonrpc: '2.0', id: Number(String(last).slice(1)), result: said(token) })}`,
        )
      return
    }
    if (method === '') return response.writeHead(202).end()
    if (params['name'] === 'slow') {
      open()
      response.write(': open\n\n')
      return
    }
    if (params['name'] === 'cut') {
      open()
      response.end(`id: e${message['id']}\ndata:\n\n`)
      return
    }
    if (params['name'] === 'error')
      return json(response, { jsonrpc: '2.0', id: message['id'], error: { code: 1, message: token } })
    if (params['name'] === 'broken')
      return json(response, { jsonrpc: '2.0', id: message['id'], error: { code: 1, message: token } }, 500)
    if (method === 'initialize')
      return json(response, result(message, { ...info, capabilities: { tools: {} } }))
    if (method === 'tools/list')
      return json(
        response,
        result(message, {
          tools: ['read', 'send'].map((name) => ({ name, inputSchema: { type: 'object' } })),
        }),
      )
    if (params['task'] !== undefined)
      return json(response, result(message, { task: { taskId: 't1', status: 'working', ttl: 60_000 } }))
    if (method === 'tasks/get')
      return json(
        response,
        result(message, { taskId: params['taskId'], status: 'completed', result: said(token) }),
      )
    if (method === 'prompts/get')
      return json(
        response,
        result(message, { messages: [{ role: 'user', content: { type: 'text', text: token } }] }),
      )
    if (method === 'resources/read')
      return json(response, result(message, { contents: [{ uri: 'a:b', text: token }] }))
    if (method === 'completion/complete')
      return json(response, result(message, { completion: { values: [token] } }))
    json(response, result(message, said(token)))
  }
}
