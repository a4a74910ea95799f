// The revisions of MCP, each with a server that was written for it.
import { startConformanceServer } from './conformance-server.js'
import { startRevisionServer } from './mcp-revision-server.js'
import type { McpServers } from './mcp-routes.js'
import { type HandshakeRevision, handshakeRevisions } from './mcp-sdks.js'

/** The revision without a handshake. */
export const STATELESS = '2026-07-28'

export type Revision = HandshakeRevision | typeof STATELESS

export const revisions: readonly Revision[] = [...handshakeRevisions, STATELESS]

export async function startServerOfEachRevision(): Promise<McpServers> {
  const servers = handshakeRevisions.map(async (revision) => [revision, await startRevisionServer(revision)])
  return Object.fromEntries([...(await Promise.all(servers)), [STATELESS, await startConformanceServer()]])
}
