// Describes several servers as one to a client: their merged capabilities, and the instructions of each server.
import { isJsonObject } from '@svc/core/json'
import { isStateless, META_SERVER_INFO, STATELESS_REVISION, TASKS_EXTENSION } from '../mcp/protocol.js'
import { uncached } from '../mcp/revision-translation.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { ServerLink } from './server-calls.js'
import type { ServerResult } from './usable-servers.js'

/** The member of `_meta`, in a list or a handshake, for the servers that are missing and the reasons. */
const META_UNAVAILABLE = 'svc/unavailable'

/** The result of `initialize`. */
export function mergedInitializeResult(
  links: readonly ServerResult<ServerLink>[],
  serverInfo: Fields,
  protocolVersion: string,
): Fields {
  return {
    protocolVersion,
    serverInfo,
    ...descriptionOf(links, protocolVersion),
    ...metaWithUnavailable(links),
  }
}

/** The result of `server/discover`. */
export function mergedDiscoverResult(links: readonly ServerResult<ServerLink>[], serverInfo: Fields): Fields {
  return {
    resultType: 'complete',
    supportedVersions: [STATELESS_REVISION],
    ...descriptionOf(links, STATELESS_REVISION),
    ...uncached,
    ...metaWithUnavailable(links, { [META_SERVER_INFO]: serverInfo }),
  }
}

/** The result of `initialize` or `server/discover` of one server of the other era than the client's. */
export function translatedDescription(link: ServerLink, revision: string): Fields {
  const { serverInfo, instructions } = link
  const described = {
    capabilities: capabilitiesFor(link, revision),
    ...(instructions === undefined ? {} : { instructions }),
  }
  if (!isStateless(revision)) return { protocolVersion: revision, serverInfo, ...described }
  const of2026 = { resultType: 'complete', supportedVersions: [STATELESS_REVISION], ...uncached }
  return { ...of2026, ...described, _meta: { [META_SERVER_INFO]: serverInfo } }
}

function descriptionOf(links: readonly ServerResult<ServerLink>[], revision: string): Fields {
  const open = links.flatMap((result) => ('value' in result ? [result.value] : []))
  // A server that is unavailable may have entries of each list later.
  const changing = { listChanged: true }
  let capabilities: Fields = { tools: changing, prompts: changing, resources: changing }
  for (const link of open) capabilities = mergeMembers(capabilities, capabilitiesFor(link, revision))
  const instructions = open.flatMap(({ server, instructions: text = '' }) =>
    text === '' ? [] : [`# ${server}\n\n${text}`],
  )
  return {
    capabilities,
    ...(instructions.length === 0 ? {} : { instructions: instructions.join('\n\n') }),
  }
}

/** The capabilities of a server that a client of `revision` can use. */
function capabilitiesFor({ capabilities, isStateless: isOwn }: ServerLink, revision: string): Fields {
  if (isOwn === isStateless(revision)) return capabilities
  // Each kind of revision has tasks of its own form.
  const { tasks: _tasks, resources, extensions, ...others } = capabilities
  const passing = isJsonObject(extensions) ? { ...others, extensions: withoutTasks(extensions) } : others
  if (!isJsonObject(resources)) return passing
  const { subscribe, ...lists } = resources
  // Requests to subscribe exist only in sessions.
  return { ...passing, resources: isOwn ? lists : { subscribe, ...lists } }
}

function withoutTasks({ [TASKS_EXTENSION]: _tasks, ...others }: Fields): Fields {
  return others
}

/** The members of both objects. Objects of one name are merged; of other values, the first that is truthy counts. */
function mergeMembers(a: Fields, b: Fields): Fields {
  const result: Record<string, unknown> = { ...a }
  for (const [name, value] of Object.entries(b)) {
    const known = result[name]
    result[name] = isJsonObject(known) && isJsonObject(value) ? mergeMembers(known, value) : known || value
  }
  return result
}

/** The member `_meta` that names the servers which are unavailable; absent if it would be empty. */
export function metaWithUnavailable(
  results: readonly ServerResult<unknown>[],
  more: Fields = {},
): { readonly _meta?: Fields } {
  const unavailable = results.flatMap((result) =>
    result.unavailable === undefined ? [] : [{ server: result.server, reason: result.unavailable.message }],
  )
  const meta = { ...more, ...(unavailable.length === 0 ? {} : { [META_UNAVAILABLE]: unavailable }) }
  return Object.keys(meta).length === 0 ? {} : { _meta: meta }
}
