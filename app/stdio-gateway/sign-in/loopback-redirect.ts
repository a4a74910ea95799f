// The redirect URI of one sign-in: a listener on the loopback interface, to which the issuer sends the user (RFC 8252).

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isUrl } from '@svc/core/json'

const host = '127.0.0.1'
const path = '/callback'

export class LoopbackRedirect implements AsyncDisposable {
  readonly uri: string
  #server: Server

  private constructor(server: Server, port: number) {
    this.#server = server
    this.uri = `http://${host}:${port}${path}`
  }

  /** Port 0 picks a free one. Rejects if the port is taken. */
  static async open(port: number): Promise<LoopbackRedirect> {
    const server = createServer()
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, resolve)
    })
    return new LoopbackRedirect(server, (server.address() as AddressInfo).port)
  }

  /** Resolves with the URL of the first request with this `state`; refuses others. Rejects with the signal's reason. */
  arrival(state: string, signal: AbortSignal): Promise<URL> {
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      this.#server.on('request', (message, response) => {
        const given = message.url ?? '/'
        // Any web page may send requests here, with targets such as `//`, which are not URLs.
        const url = new URL(isUrl(given, this.uri) ? given : '/', this.uri)
        const isExpected = url.pathname === path && url.searchParams.get('state') === state
        const isDenied = url.searchParams.has('error')
        response.writeHead(isExpected ? 200 : 400, { 'content-type': 'text/plain', connection: 'close' })
        if (!isExpected) response.end('Not expected here.\n')
        else response.end(isDenied ? 'Not signed in.\n' : 'Signed in. Close this page.\n', () => resolve(url))
      })
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    // Browsers keep connections open that they do not use.
    this.#server.closeAllConnections()
    await closed
  }
}
