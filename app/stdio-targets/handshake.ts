// Learns what a process speaks: the handshake of the revisions up to 2025-11-25, else `server/discover` of 2026-07-28.
// The handshake comes first, although the protocol recommends the other order: some servers of the older revisions do
// not answer an unknown method, and each of their starts would wait for a time-out.
import type { Abortable } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { isStateless, META_SERVER_INFO, STATELESS_REVISION } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import { clientMeta } from '../mcp/stateless-request.js'
import type { RpcChannel } from './rpc-channel.js'

/** What a server says of itself. */
export interface ServerDescription {
  /** The revision that its process speaks. */
  readonly revision: string
  readonly isStateless: boolean
  readonly capabilities: Fields
  readonly serverInfo: Fields
  readonly instructions?: string
}

/** As whom the gateway speaks to a process: itself, or the client of the only session. */
export interface HandshakeClient {
  readonly protocolVersion: string
  readonly clientInfo: unknown
  readonly capabilities: unknown
}

/** The process answered neither form of the handshake with a result. */
export class HandshakeRefused extends Error {
  override readonly name = 'HandshakeRefused'
}

/** Rejects with the reason of the signal, with `UpstreamError`, or with `HandshakeRefused`. */
export async function shakeHands(
  channel: RpcChannel,
  client: HandshakeClient,
  signal: Abortable,
): Promise<ServerDescription> {
  const { result } = await channel.ask('initialize', { ...client }, signal)
  const revision = isJsonObject(result) ? result['protocolVersion'] : undefined
  if (isJsonObject(result) && typeof revision === 'string' && !isStateless(revision)) {
    return describe(result, revision, result['serverInfo'])
  }
  const answer = await channel.ask('server/discover', { _meta: clientMeta(client.clientInfo) }, signal)
  const discovered = answer['result']
  if (!isJsonObject(discovered) || !isJsonObject(discovered['capabilities'])) {
    throw new HandshakeRefused('it answered neither initialize nor server/discover with a result')
  }
  const meta = discovered['_meta']
  return describe(discovered, STATELESS_REVISION, isJsonObject(meta) ? meta[META_SERVER_INFO] : undefined)
}

function describe(result: Fields, revision: string, serverInfo: unknown): ServerDescription {
  const { capabilities, instructions } = result
  return {
    revision,
    isStateless: isStateless(revision),
    capabilities: isJsonObject(capabilities) ? capabilities : {},
    serverInfo: isJsonObject(serverInfo) ? serverInfo : {},
    ...(typeof instructions === 'string' ? { instructions } : {}),
  }
}
