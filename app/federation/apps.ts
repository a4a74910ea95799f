// MCP Apps (SEP-1865) of several servers: the interface of a tool has one URI at the endpoint, whether its server lists it or
// not, and an app calls the tools of its server by the names that they have there.
import { isJsonObject } from '@svc/core/json'
import { interfacesOf, withInterfaces } from '../mcp/learned-values.js'
import type { ServerList } from '../mcp/lists.js'
import { metaOf } from '../mcp/meta.js'
import { UI_EXTENSION } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import { type EntrySource, wrappedUri } from './names.js'
import { indexOf } from './server-lists.js'
import type { FederationSession } from './session.js'
import type { ServerResult } from './usable-servers.js'

/** The entry of a tool, with the URIs that its interfaces have here. */
export function withInterface({ server }: EntrySource, tool: Fields): Fields {
  return withInterfaces(tool, (name) => wrappedUri({ server, name }))
}

/** The response to the read of an interface, whose contents have the URI that the client knows. */
export function withUri(response: Fields, own: string, uri: string): Fields {
  const { result } = response
  if (!isJsonObject(result) || !Array.isArray(result['contents'])) return response
  const contents = result['contents'].map((content) =>
    isJsonObject(content) && content['uri'] === own ? { ...content, uri } : content,
  )
  return { ...response, result: { ...result, contents } }
}

/** Whether the client supports apps; another client would show such tools to its model. */
export function hasApps({ client }: FederationSession): boolean {
  const { capabilities } = client
  const extensions = isJsonObject(capabilities) ? capabilities['extensions'] : undefined
  return isJsonObject(extensions) && isJsonObject(extensions[UI_EXTENSION])
}

export function isForAppsAlone(tool: Fields): boolean {
  return isVisibleTo(tool, 'app') && !isVisibleTo(tool, 'model')
}

/** A tool without `visibility` is for models and for apps. */
function isVisibleTo(tool: Fields, who: 'app' | 'model'): boolean {
  const { ui } = metaOf(tool)
  const visibility = isJsonObject(ui) ? ui['visibility'] : undefined
  return !Array.isArray(visibility) || visibility.length === 0 || visibility.includes(who)
}

/**
 * The tool that an app may mean by its name at the server. Nothing says which app calls: the name must be that of one
 * server with apps alone. Undefined also if a server is unavailable, which could have such a tool.
 */
export function toolOfApp(
  name: string,
  results: readonly ServerResult<ServerList>[],
): EntrySource | undefined {
  const having: EntrySource[] = []
  for (const result of results) {
    if (!('value' in result)) return undefined
    const { server, value } = result
    const tool = indexOf(server, 'tools', value).entryOf(name)
    const isAppServer = value.entries.some((entry) => interfacesOf(entry).length > 0)
    if (tool !== undefined && isAppServer && isVisibleTo(tool, 'app')) having.push({ server, name })
  }
  return having.length === 1 ? having[0] : undefined
}
