// Merges the lists of a client's servers, and finds the server of a name or URI that the client uses.
import { type Call, Refusal } from '@svc/core'
import { capabilityOf } from '../mcp/handshake.js'
import { type ListKind, listForms, noList, type ServerList } from '../mcp/lists.js'
import { invalidParams } from '../mcp/message.js'
import { metaOf } from '../mcp/meta.js'
import { listedReference } from '../mcp/references.js'
import type { Fields } from '../mcp/rpc-response.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import { hasApps, isForAppsAlone, toolOfApp, withInterface } from './apps.js'
import { ask, type ClientRequest, linkTo, ownMessage } from './client-request.js'
import {
  bareName,
  ComparisonBudget,
  type EntrySource,
  listedNames,
  listedUris,
  mayExpandTo,
  NameConflict,
  needsList,
  prefixedName,
  schemeOf,
  sourceOfPrefixed,
  sourceOfWrapped,
  type Template,
  wrappedUri,
} from './names.js'
import type { CallHooks } from './server-calls.js'
import { indexOf, type ListedEntry, type ListIndex, listKinds, readList } from './server-lists.js'
import { lookMs } from './session.js'
import { onUsableServers, type ServerResult } from './usable-servers.js'

/** Members of `_meta` that name the server of an entry and the entry's own name there. */
const META_SERVER = 'svc/server'
const META_NAME = 'svc/name'

/**
 * The lists of all servers that the caller may use. Rejects with `McpRefusal` for names that are in conflict, and with
 * `Refusal` if no server is available.
 */
export async function wholeList(
  request: ClientRequest,
  kind: ListKind,
): Promise<{ readonly entries: readonly Fields[]; readonly results: readonly ServerResult<ServerList>[] }> {
  const results = await listsOf(request, kind)
  checkAnyAvailable(results)
  for (const result of results) {
    if ('value' in result && result.value.isCut)
      request.logMissing(result.server, 'Its list is too long to be kept.')
  }
  const all = entriesOf(results, kind)
  if (request.only !== undefined) return { entries: all.map(({ entry }) => entry), results }
  const isModelAlone = kind === 'tools' && !hasApps(request.session)
  const listed = isModelAlone ? all.filter(({ entry }) => !isForAppsAlone(entry)) : all
  const templates = kind === 'resources' ? await listsOf(request, 'resourceTemplates') : []
  const names = namesOf(request, kind, listed, entriesOf(templates, 'resourceTemplates'))
  const entries = listed.map(({ source, entry }, index) =>
    shownEntry(kind, source, entry, names[index] ?? ''),
  )
  return { entries, results }
}

function listsOf(request: ClientRequest, kind: ListKind): Promise<ServerResult<ServerList>[]> {
  const { session, scope } = request
  return onUsableServers(request, {
    run: (server, hooks) => listOf(request, server, kind, hooks),
    retained(server) {
      const list = session.lists.last({ server, kind, scope })
      return list && ((rules) => usableList(list, server, kind, rules))
    },
  })
}

/** A retained list as far as the caller may use it now. */
function usableList(list: ServerList, server: string, kind: ListKind, rules: Call): ServerList {
  const { kind: judgedAs, nameMember } = listForms[kind]
  const entries = list.entries.filter(({ [nameMember]: name }) => {
    const reference =
      typeof name === 'string' && listedReference(server, judgedAs, name, list.version ?? UNVERSIONED)
    return typeof reference === 'string' && rules.mayRequest(reference, judgedAs)
  })
  return entries.length === list.entries.length ? list : { ...list, entries }
}

/** An empty list would say that the caller may use nothing. */
function checkAnyAvailable(results: readonly ServerResult<ServerList>[]): void {
  const missing = results.flatMap((result) => ('value' in result ? [] : [result]))
  if (missing.length === 0 || missing.length < results.length) return
  const reasons = missing.map(({ server, unavailable }) => `${server}: ${unavailable.message}`)
  throw new Refusal('UPSTREAM_UNREACHABLE', `No server has a list now. ${reasons.join(' ')}`)
}

async function listOf(
  request: ClientRequest,
  server: string,
  kind: ListKind,
  hooks: CallHooks,
): Promise<ServerList> {
  const { session, scope, config } = request
  await session.refresh(lookMs)
  if (await session.shared?.hasChanged(server)) session.lists.changed(server, listKinds)
  return session.lists.of({ server, kind, scope }, config.list_ttl_ms, async () => {
    const link = await linkTo(request, server, hooks)
    if (capabilityOf(link, listForms[kind].capability) === undefined) return noList
    const list = await readList(server, kind, (params) =>
      ask(request, server, ownMessage(request, listForms[kind].method, params), hooks),
    )
    const { version } = link.serverInfo
    return typeof version === 'string' ? { ...list, version } : list
  })
}

function indexesOf(results: readonly ServerResult<ServerList>[], kind: ListKind): ListIndex[] {
  return results.flatMap((result) => ('value' in result ? [indexOf(result.server, kind, result.value)] : []))
}

function entriesOf(results: readonly ServerResult<ServerList>[], kind: ListKind): ListedEntry[] {
  return indexesOf(results, kind).flatMap(({ listed }) => listed)
}

function namesOf(
  { config, servers }: ClientRequest,
  kind: ListKind,
  listed: readonly ListedEntry[],
  templates: readonly ListedEntry[],
): string[] {
  const sources = listed.map(({ source }) => source)
  if (isUriKind(kind)) {
    return listedUris(
      sources,
      templates.map(({ source }) => source),
      servers,
    )
  }
  try {
    return listedNames(sources, config.prefix)
  } catch (error) {
    if (error instanceof NameConflict) throw conflict(error)
    throw error
  }
}

function shownEntry(kind: ListKind, source: EntrySource, own: Fields, name: string): Fields {
  const entry = kind === 'tools' ? withInterface(source, own) : own
  const meta = {
    ...metaOf(entry),
    [META_SERVER]: source.server,
    [META_NAME]: source.name,
  }
  const isShortened = !isUriKind(kind) && !name.endsWith(source.name)
  return {
    ...entry,
    [listForms[kind].nameMember]: name,
    ...(isShortened ? { title: titleOf(source, entry) } : {}),
    _meta: meta,
  }
}

function titleOf({ server, name }: EntrySource, { title }: Fields): string {
  return typeof title === 'string' && title !== name ? `${title} (${server}: ${name})` : `${server}: ${name}`
}

function isUriKind(kind: ListKind): boolean {
  return kind === 'resources' || kind === 'resourceTemplates'
}

/** The source of a tool or prompt that the client names. Rejects with `McpRefusal`. */
export async function sourceOfName(
  request: ClientRequest,
  kind: 'tools' | 'prompts',
  name: string,
): Promise<EntrySource> {
  const { servers, only } = request
  if (only !== undefined) return { server: only, name }
  const { prefix } = request.config
  const prefixed = prefix === 'never' ? undefined : sourceOfPrefixed(name)
  if (prefixed !== undefined && servers.includes(prefixed.server)) return prefixed
  const [found, ...others] = needsList(name, prefix)
    ? await firstFound(request, kind, (index) => index.sourcesOf(name, prefix))
    : []
  if (found === undefined) {
    const ofApp =
      kind === 'tools' && hasApps(request.session) ? toolOfApp(name, await listsOf(request, kind)) : undefined
    if (ofApp !== undefined) return ofApp
    throw invalidParams(await describeUnknown(request, kind, name))
  }
  if (others.length > 0) {
    const named = [found, ...others].map(({ server }) => server)
    throw conflict(new NameConflict(name, named))
  }
  return found
}

/** The source of a resource, or of a template, that the client names by its URI. Rejects with `McpRefusal`. */
export async function sourceOfUri(request: ClientRequest, uri: string): Promise<EntrySource> {
  const sourceOf = await uriLookup(request, [uri])
  return sourceOf(uri)
}

/** Finds the source of each of the URIs that a client names in one request. It throws `McpRefusal`. */
export async function uriLookup(
  request: ClientRequest,
  uris: readonly string[],
): Promise<(uri: string) => EntrySource> {
  const { servers, only } = request
  if (only !== undefined) return (name) => ({ server: only, name })
  const wrapped = (uri: string): EntrySource | undefined => {
    const source = sourceOfWrapped(uri)
    return source !== undefined && servers.includes(source.server) ? source : undefined
  }
  const isListNeeded = uris.some((uri) => wrapped(uri) === undefined)
  const indexes = isListNeeded ? await listedResources(request) : []
  const budget = new ComparisonBudget()
  return (uri) => wrapped(uri) ?? listedSource(request, uri, indexes, budget)
}

function listedSource(
  request: ClientRequest,
  uri: string,
  indexes: readonly ListIndex[],
  budget: ComparisonBudget,
): EntrySource {
  const exact = serversOf(indexes, (index) => index.has(uri))
  const having = serversOf(
    indexes,
    (index) => index.has(uri) || index.templates.some((template) => isExpansion(template, uri, budget)),
  )
  // An earlier server keeps its URIs, whatever later servers list.
  const [first, ...others] = request.servers.filter((server) => having.includes(server))
  if (first !== undefined && (exact.length < 2 || !exact.includes(first))) {
    if (others.length > 0) request.logConflict(uri, [first, ...others])
    return { server: first, name: uri }
  }
  const candidates = first === undefined ? serversOfScheme(uri, indexes) : exact
  const [only, another] = candidates
  if (only === undefined)
    throw invalidParams('Unknown resource: no server lists this URI or a template of it.')
  if (another !== undefined) {
    const wrappedUris = candidates.map((one) => wrappedUri({ server: one, name: uri }))
    throw invalidParams(`Several servers have this URI; name one of ${wrappedUris.join(', ')}.`)
  }
  return { server: only, name: uri }
}

/** Throws `McpRefusal` if the request has cost too much: a part of the templates could give the URI to another server. */
function isExpansion(template: Template, uri: string, budget: ComparisonBudget): boolean {
  if (!budget.spend(template, uri))
    throw invalidParams('The servers have too many templates for the URIs; name them as svc:<server>/<uri>.')
  return mayExpandTo(template, uri)
}

const uriKinds = ['resources', 'resourceTemplates'] as const

/**
 * The resources and templates of all servers, because a part of them could give a URI to the wrong server. A server
 * that is unavailable has those that were read last.
 */
async function listedResources(request: ClientRequest): Promise<ListIndex[]> {
  const { session, scope } = request
  const lists = await Promise.all(uriKinds.map((kind) => listsOf(request, kind)))
  return lists.flatMap((results, index) => {
    const kind = uriKinds[index] ?? 'resources'
    const known = results.map((result) => {
      if ('value' in result) return result
      const value = session.lists.last({ server: result.server, kind, scope })
      return value === undefined ? result : { server: result.server, value }
    })
    return indexesOf(known, kind)
  })
}

/** The servers with resources of the URI's scheme, because tools may name resources that are not listed. */
function serversOfScheme(uri: string, indexes: readonly ListIndex[]): string[] {
  const scheme = schemeOf(uri)
  return scheme === '' ? [] : serversOf(indexes, (index) => index.hasScheme(scheme))
}

function serversOf(indexes: readonly ListIndex[], test: (index: ListIndex) => boolean): string[] {
  return [...new Set(indexes.filter(test).map(({ server }) => server))]
}

/** Names that a message lists. */
const maxNamed = 5

/** Names the entries that servers have under this name of their own, which documents and models may know. */
async function describeUnknown(
  request: ClientRequest,
  kind: 'tools' | 'prompts',
  name: string,
): Promise<string> {
  const found = await firstFound(request, kind, (index) =>
    index.has(name) ? [{ server: index.server, name }] : [],
  )
  const listed = request.config.prefix === 'never' ? bareName : prefixedName
  const what = kind === 'tools' ? 'tool' : 'prompt'
  if (found.length === 0 || found.length > maxNamed) return `Unknown ${what}: no such name.`
  return `Unknown ${what}: ${name}; here it is ${found.map(listed).join(' or ')}.`
}

/** The entries that `find` finds in the lists that were read last, or else in new ones. */
async function firstFound(
  request: ClientRequest,
  kind: 'tools' | 'prompts',
  find: (index: ListIndex) => readonly EntrySource[],
): Promise<EntrySource[]> {
  const { servers, session, scope } = request
  const known = servers.flatMap((server) => {
    const value = session.lists.last({ server, kind, scope })
    return value === undefined ? [] : [{ server, value }]
  })
  const found = indexesOf(known, kind).flatMap(find)
  return found.length > 0 ? found : indexesOf(await listsOf(request, kind), kind).flatMap(find)
}

function conflict(error: NameConflict): ReturnType<typeof invalidParams> {
  return invalidParams(`A name of two servers: ${error.message}; federation.prefix decides.`, {
    cause: error,
  })
}
