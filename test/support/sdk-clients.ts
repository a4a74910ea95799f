// Clients of the protocol's own SDKs, unchanged.
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const clientInfo = { name: 'test', version: '1.0.0' }

interface Connecting {
  readonly capabilities?: object
  readonly headers?: Record<string, string>
}

export interface Connecting1 extends Connecting {
  /** Runs before the handshake. */
  readonly prepare?: (client: Client) => void
}

/** SDK 1.x; with a session. */
export async function connect1(
  url: string,
  { capabilities = {}, headers = {}, prepare }: Connecting1 = {},
): Promise<Client & AsyncDisposable> {
  const client = new Client(clientInfo, { capabilities })
  prepare?.(client)
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  // Its types are not made for `exactOptionalPropertyTypes`.
  await client.connect(transport as Parameters<Client['connect']>[0])
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

/** SDK 2.x, by the revision 2026-07-28 if the server has it. */
export async function connect2(
  url: string,
  { capabilities = {}, headers = {} }: Connecting = {},
): Promise<Client2 & AsyncDisposable> {
  const client = new Client2(clientInfo, { capabilities, versionNegotiation: { mode: 'auto' } })
  await client.connect(new Transport2(new URL(url), { requestInit: { headers } }))
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}
