// Serves the metadata document of an OAuth client, whose URL is the client's id
// (draft-ietf-oauth-client-id-metadata-document).
import { createServer } from 'node:https'
import type { Certificate } from './certificates.js'
import { listenOnLoopback } from './loopback.js'

export interface ClientMetadata extends AsyncDisposable {
  /** The client's id. */
  readonly url: string
}

/** `metadata` without `client_id`; `certificate` is one for `localhost`. */
export async function serveClientMetadata(
  metadata: Readonly<Record<string, unknown>>,
  { key, cert }: Certificate,
): Promise<ClientMetadata> {
  const server = createServer({ key, cert }, (_message, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ ...metadata, client_id: url }))
  })
  const listening = await listenOnLoopback(server)
  const url = `https://localhost:${listening.port}/client.json`
  return {
    url,
    [Symbol.asyncDispose]: listening[Symbol.asyncDispose],
  }
}
