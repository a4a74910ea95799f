// Sends requests of the table to one server on one route, in sessions that it opens there.
import { type Revision, STATELESS } from '../../support/mcp-revisions.js'
import type { Session, TableRequest } from './requests.js'
import { type HttpResponse, send } from './wire.js'

export class Sender {
  #url: string
  #revision: Revision
  #open: Promise<string> | undefined

  constructor(url: string, revision: Revision) {
    this.#url = url
    this.#revision = revision
  }

  async send({ session = 'open', ...raw }: TableRequest): Promise<HttpResponse> {
    const id = this.#revision === STATELESS ? undefined : await this.#sessionId(session)
    const more = id === undefined ? {} : { 'mcp-session-id': id }
    return send(this.#url, { ...raw, headers: { ...more, ...raw.headers } })
  }

  async #sessionId(session: Session): Promise<string | undefined> {
    switch (session) {
      case 'none':
        return undefined
      case 'unknown':
        return 'unknown'
      case 'open':
        this.#open ??= this.#begin()
        return this.#open
      case 'of its own':
        return this.#begin()
      case 'ended': {
        const id = await this.#begin()
        await send(this.#url, { method: 'DELETE', headers: { 'mcp-session-id': id } })
        return id
      }
    }
  }

  async #begin(): Promise<string> {
    const clientInfo = { name: 'raw', version: '1' }
    const params = { protocolVersion: this.#revision, capabilities: {}, clientInfo }
    const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
    const { sessionId, brief } = await send(this.#url, { body: JSON.stringify(initialize) })
    if (sessionId === undefined) throw new Error(`no session was begun: ${brief}`)
    const initialized = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })
    await send(this.#url, { body: initialized, headers: { 'mcp-session-id': sessionId } })
    return sessionId
  }
}
