// Releases of the MCP SDK 1.x of four ages: each speaks another revision as its newest.
import { createRequire } from 'node:module'

type ClientModule = typeof import('@modelcontextprotocol/sdk/client/index.js')
type ClientTransportModule = typeof import('@modelcontextprotocol/sdk/client/streamableHttp.js')
type ServerModule = typeof import('@modelcontextprotocol/sdk/server/mcp.js')
type CompletableModule = typeof import('@modelcontextprotocol/sdk/server/completable.js')
type ServerTransportModule = typeof import('@modelcontextprotocol/sdk/server/streamableHttp.js')
type StdioModules = typeof import('@modelcontextprotocol/sdk/client/stdio.js') &
  typeof import('@modelcontextprotocol/sdk/server/stdio.js')
type TypesModule = typeof import('@modelcontextprotocol/sdk/types.js')

/** Typed as the present release; what the tests use of it is in the older ones too. */
export type Sdk = ClientModule &
  ClientTransportModule &
  ServerModule &
  CompletableModule &
  ServerTransportModule &
  Pick<
    TypesModule,
    | 'LATEST_PROTOCOL_VERSION'
    | 'LoggingMessageNotificationSchema'
    | 'CreateMessageRequestSchema'
    | 'CreateMessageResultSchema'
    | 'SubscribeRequestSchema'
    | 'UnsubscribeRequestSchema'
  > &
  // Since 2025-06-18.
  Partial<Pick<TypesModule, 'ElicitRequestSchema' | 'ElicitResultSchema'>> &
  Pick<typeof import('zod'), 'z'>

/** The entry of each release, by the newest revision that it speaks. */
const releases = {
  '2024-11-05': () => import.meta.resolve('mcp-sdk-1.10/types.js'),
  '2025-03-26': () => import.meta.resolve('mcp-sdk-1.12/types.js'),
  '2025-06-18': () => import.meta.resolve('mcp-sdk-1.17/types.js'),
  '2025-11-25': () => import.meta.resolve('@modelcontextprotocol/sdk/types.js'),
} as const

export type HandshakeRevision = keyof typeof releases

/** The revisions whose release has every feature of the tests' server. The tools of 2024-11-05 cannot report progress, for example. */
export const handshakeRevisions: readonly HandshakeRevision[] = ['2025-03-26', '2025-06-18', '2025-11-25']

const modules = [
  'client/index.js',
  'client/streamableHttp.js',
  'server/mcp.js',
  'server/completable.js',
  'server/streamableHttp.js',
  'types.js',
]

/** The release whose newest revision this is, with the zod that it was written for. */
export async function sdkOf(revision: HandshakeRevision): Promise<Sdk> {
  const entry = releases[revision]()
  const parts: object[] = await Promise.all(modules.map((path) => import(new URL(path, entry).href)))
  const sdk: Sdk = Object.assign({}, createRequire(entry)('zod'), ...parts)
  if (sdk.LATEST_PROTOCOL_VERSION !== revision) {
    throw new Error(`the release for ${revision} speaks ${sdk.LATEST_PROTOCOL_VERSION}`)
  }
  return sdk
}

/** The transports over stdio of that release. */
export async function stdioOf(revision: HandshakeRevision): Promise<StdioModules> {
  const parts = ['client/stdio.js', 'server/stdio.js'].map(
    (path): Promise<object> => import(new URL(path, releases[revision]()).href),
  )
  return Object.assign({}, ...(await Promise.all(parts)))
}
