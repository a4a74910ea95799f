// Describes a process to a client: the results of `initialize` and `server/discover`.
import type { ServerDescription, ServerSession } from '../../mcp/handshake.js'
import {
  HANDSHAKE_REVISION,
  handshakeRevisions,
  META_SERVER_INFO,
  STATELESS_REVISION,
} from '../../mcp/protocol.js'
import { negotiatedRevision, uncached } from '../../mcp/revision-translation.js'
import type { Fields } from '../../mcp/rpc-response.js'

/** Capabilities of a process that several clients share: without logging, as log messages do not name their request. */
export function sharedCapabilities({ capabilities }: ServerDescription): Fields {
  const { logging: _, ...shared } = capabilities
  return shared
}

/** The response to a client's `initialize`. */
export function initializeResult(
  { revision, isStateless, serverInfo, instructions }: ServerSession & ServerDescription,
  requested: unknown,
  capabilities: Fields,
): Fields {
  return {
    protocolVersion: negotiatedRevision(requested, isStateless ? HANDSHAKE_REVISION : revision),
    capabilities,
    serverInfo,
    ...(instructions === undefined ? {} : { instructions }),
  }
}

/** The response to a client's `server/discover`. */
export function discoverResult(server: ServerDescription): Fields {
  const { serverInfo, instructions } = server
  // The tasks of older revisions differ from those of 2026-07-28, which are an extension.
  const { tasks: _, ...capabilities } = sharedCapabilities(server)
  return {
    resultType: 'complete',
    supportedVersions: [...handshakeRevisions, STATELESS_REVISION],
    capabilities,
    ...(instructions === undefined ? {} : { instructions }),
    ...uncached,
    _meta: { [META_SERVER_INFO]: serverInfo },
  }
}
