// A cheap client, which begins sessions and opens each GET stream on its own connection.
import { Agent, type IncomingMessage, request } from 'node:http'

const initialize = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} })
const initialized = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })

export class StreamClient implements Disposable {
  #url: string
  #agent = new Agent({ keepAlive: true, maxSockets: 50 })

  constructor(url: string) {
    this.#url = url
  }

  /** The id of a new session. */
  async begin(): Promise<string> {
    const begun = await this.#post(initialize)
    const sessionId = String(begun.headers['mcp-session-id'])
    await this.#post(initialized, sessionId)
    return sessionId
  }

  /** The response, of which only the head is read. It ends when it is destroyed. */
  async open(sessionId: string): Promise<IncomingMessage> {
    const headers = { accept: 'text/event-stream', 'mcp-session-id': sessionId }
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sending = request(this.#url, { agent: false, headers }, resolve)
      sending.once('error', reject).end()
    })
    if (response.statusCode !== 200) throw new Error(`the stream was refused: ${response.statusCode}`)
    // A reset is one way for a stream to end.
    response.on('error', () => undefined)
    return response
  }

  [Symbol.dispose](): void {
    this.#agent.destroy()
  }

  async #post(body: string, sessionId?: string): Promise<IncomingMessage> {
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(sessionId === undefined ? {} : { 'mcp-session-id': sessionId }),
    }
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sending = request(this.#url, { agent: this.#agent, method: 'POST', headers }, resolve)
      sending.once('error', reject).end(body)
    })
    await new Promise((resolve, reject) => response.resume().once('end', resolve).once('error', reject))
    if ((response.statusCode ?? 0) >= 300) throw new Error(`the message was refused: ${response.statusCode}`)
    return response
  }
}

/** Runs an action `count` times, with limited concurrency. */
export async function inBatches<T>(count: number, batch: number, act: () => Promise<T>): Promise<T[]> {
  const all: T[] = []
  while (all.length < count)
    all.push(...(await Promise.all(Array.from({ length: Math.min(batch, count - all.length) }, act))))
  return all
}
