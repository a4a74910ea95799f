// What the servers of one client list, as one list; and which server has what the client names.
import { Refusal } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { noList, type ServerList } from '../mcp/list-pages.js'
import { invalidParams } from '../mcp/mcp-refusal.js'
import type { Fields } from '../mcp/rpc-response.js'
import {
  ask,
  type CallHooks,
  type ClientRequest,
  linkTo,
  onUsableServers,
  ownMessage,
  type ServerResult,
} from './client-request.js'
import { findSources, listedNames, NameConflict, needsList, type Source, sourceOfPrefixed } from './names.js'
import { listedUris, mayExpandTo, sourceOfWrapped, wrappedUri } from './resource-uris.js'
import { capabilityOf } from './server-link.js'
import { type ListKind, listForms, readList } from './server-lists.js'

/** An entry of a list, as its server has it. */
interface Listed {
  readonly source: Source
  readonly entry: Fields
}

/** In `_meta` of an entry: the names of its server and of itself there. */
const META_SERVER = 'svc/server'
const META_NAME = 'svc/name'

/**
 * The lists of all servers that the caller may use. Rejects with `McpRefusal` for names that are in conflict, with
 * `Refusal` where no server has a list for the caller now.
 */
export async function wholeList(
  request: ClientRequest,
  kind: ListKind,
): Promise<{ readonly entries: readonly Fields[]; readonly results: readonly ServerResult<ServerList>[] }> {
  const results = await onUsableServers(request, (server, hooks) => listOf(request, server, kind, hooks))
  checkAnyAvailable(results)
  const listed = uniqueEntries(results, kind)
  const names = namesOf(request, kind, listed)
  const entries = listed.map(({ source, entry }, index) =>
    shownEntry(kind, source, entry, names[index] ?? ''),
  )
  return { entries, results }
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
  return session.lists.of({ server, kind, scope }, config.list_ttl_ms, async () => {
    const link = await linkTo(request, server, hooks)
    if (capabilityOf(link, listForms[kind].capability) === undefined) return noList
    return readList(server, kind, (params) =>
      ask(request, server, ownMessage(request, listForms[kind].method, params), hooks),
    )
  })
}

/** Without entries that have no name, and those that a server lists again. */
function uniqueEntries(results: readonly ServerResult<ServerList>[], kind: ListKind): Listed[] {
  return results.flatMap((result) => {
    if (!('value' in result)) return []
    const seen = new Set<string>()
    return result.value.entries.flatMap((entry) => {
      const name = nameOfEntry(kind, entry)
      if (typeof name !== 'string' || seen.has(name)) return []
      seen.add(name)
      return [{ source: { server: result.server, name }, entry }]
    })
  })
}

export function nameOfEntry(kind: ListKind, entry: Fields): unknown {
  return entry[nameMembers[kind]]
}

const nameMembers: Readonly<Record<ListKind, string>> = {
  tools: 'name',
  prompts: 'name',
  resources: 'uri',
  resourceTemplates: 'uriTemplate',
}

function namesOf({ config }: ClientRequest, kind: ListKind, listed: readonly Listed[]): string[] {
  const sources = listed.map(({ source }) => source)
  if (kind === 'resources' || kind === 'resourceTemplates') return listedUris(sources)
  try {
    return listedNames(sources, config.prefix)
  } catch (fault) {
    if (fault instanceof NameConflict) throw conflict(fault)
    throw fault
  }
}

function shownEntry(kind: ListKind, source: Source, entry: Fields, name: string): Fields {
  const { _meta } = entry
  const meta = {
    ...(isJsonObject(_meta) ? _meta : {}),
    [META_SERVER]: source.server,
    [META_NAME]: source.name,
  }
  const isShortened = !isUriKind(kind) && !name.endsWith(source.name)
  return {
    ...entry,
    [nameMembers[kind]]: name,
    ...(isShortened ? { title: titleOf(source, entry) } : {}),
    _meta: meta,
  }
}

function titleOf({ server, name }: Source, { title }: Fields): string {
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
): Promise<Source> {
  const { servers } = request
  const { prefix } = request.config
  const prefixed = prefix === 'never' ? undefined : sourceOfPrefixed(name)
  if (prefixed !== undefined && servers.includes(prefixed.server)) return prefixed
  const find = (listed: readonly Listed[]): Source[] => {
    const sources = listed.map(({ source }) => source)
    return findSources(name, sources, prefix)
  }
  const [found, ...others] = needsList(name, prefix) ? await firstFound(request, [kind], find) : []
  if (found === undefined)
    throw invalidParams(`Unknown ${kind === 'tools' ? 'tool' : 'prompt'}: no such name.`)
  if (others.length > 0) {
    const named = [found, ...others].map(({ server }) => server)
    throw conflict(new NameConflict(name, named))
  }
  return found
}

/** The source of a resource, or of a template, that the client names by its URI. Rejects with `McpRefusal`. */
export async function sourceOfUri(request: ClientRequest, uri: string): Promise<Source> {
  const wrapped = sourceOfWrapped(uri)
  if (wrapped !== undefined && request.servers.includes(wrapped.server)) return wrapped
  const kinds = ['resources', 'resourceTemplates'] as const
  const candidates = await firstFound(
    request,
    kinds,
    (listed) => serversWith(uri, listed),
    (listed) => serversOfScheme(uri, listed),
  )
  const [server, ...others] = candidates
  if (server === undefined)
    throw invalidParams('Unknown resource: no server lists this URI or a template of it.')
  if (others.length > 0) {
    const wrappedUris = candidates.map((one) => wrappedUri({ server: one, name: uri }))
    throw invalidParams(`Several servers have this URI; name one of ${wrappedUris.join(', ')}.`)
  }
  return { server, name: uri }
}

/** The servers that list the URI, else those with a template of it. */
function serversWith(uri: string, listed: readonly Listed[]): string[] {
  const exact = serversWhere(listed, (name) => name === uri)
  return exact.length > 0
    ? exact
    : serversWhere(listed, (name) => name.includes('{') && mayExpandTo(name, uri))
}

/** The servers with resources of the scheme: tools may name resources that are on no list. */
function serversOfScheme(uri: string, listed: readonly Listed[]): string[] {
  const scheme = uri.slice(0, uri.indexOf(':') + 1)
  return scheme === '' ? [] : serversWhere(listed, (name) => name.startsWith(scheme))
}

function serversWhere(listed: readonly Listed[], test: (name: string) => boolean): string[] {
  return [...new Set(listed.filter(({ source }) => test(source.name)).map(({ source }) => source.server))]
}

/** What `find` finds in the lists that were read last, else in those of now, else what `guess` finds in these. */
async function firstFound<T>(
  request: ClientRequest,
  kinds: readonly ListKind[],
  find: (listed: readonly Listed[]) => T[],
  guess: (listed: readonly Listed[]) => T[] = () => [],
): Promise<T[]> {
  const { servers, session, scope } = request
  const known = kinds.flatMap((kind) =>
    uniqueEntries(
      servers.flatMap((server) => {
        const value = session.lists.last({ server, kind, scope })
        return value === undefined ? [] : [{ server, value }]
      }),
      kind,
    ),
  )
  const found = find(known)
  if (found.length > 0) return found
  const results = await Promise.all(
    kinds.map((kind) => onUsableServers(request, (server, hooks) => listOf(request, server, kind, hooks))),
  )
  const now = results.flatMap((result, index) => uniqueEntries(result, kinds[index] ?? 'resources'))
  const listed = find(now)
  return listed.length > 0 ? listed : guess(now)
}

function conflict(fault: NameConflict): ReturnType<typeof invalidParams> {
  return invalidParams(`A name of two servers: ${fault.message}; federation.prefix decides.`, {
    cause: fault,
  })
}
