// Removes from lists what the caller may not use. A list is recognised by its shape, because a response that is replayed on
// a GET stream does not name the method of its request.
import { type RequestKind, requestReference } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { ReferenceInputError } from '@svc/core/match'
import { invalidParams, McpRefusal } from './message.js'
import { MAX_NAME } from './protocol.js'
import type { Fields } from './rpc-response.js'

export type ListKind = 'tools' | 'prompts' | 'resources' | 'resourceTemplates'

interface ListForm {
  readonly method: string
  /** The capability of servers that have such a list. */
  readonly capability: string
  /** The kind by which an entry is judged. */
  readonly kind: RequestKind
  /** The member of an entry that has its name. */
  readonly nameMember: string
}

/**
 * Lists by kind, which is also the member of the result. A resource template is judged by its own text, as if it were the
 * URI of a resource: a pattern as wide as the template keeps it, a narrower one does not. Each read is judged by its own URI.
 */
export const listForms: Readonly<Record<ListKind, ListForm>> = {
  tools: { method: 'tools/list', capability: 'tools', kind: 'tool', nameMember: 'name' },
  prompts: { method: 'prompts/list', capability: 'prompts', kind: 'prompt', nameMember: 'name' },
  resources: { method: 'resources/list', capability: 'resources', kind: 'resource', nameMember: 'uri' },
  resourceTemplates: {
    method: 'resources/templates/list',
    capability: 'resources',
    kind: 'resource',
    nameMember: 'uriTemplate',
  },
}

const lists = Object.entries(listForms)

export type MayUse = (kind: RequestKind, name: string) => boolean

export function isListing(result: unknown): result is Fields {
  return isJsonObject(result) && lists.some(([member]) => Array.isArray(result[member]))
}

/** Returns the same object if nothing is removed. An entry without a name cannot be judged and is removed. */
export function filterListing(result: Fields, mayUse: MayUse): Fields {
  let filtered = result
  for (const [member, { kind, nameMember }] of lists) {
    const entries: unknown = result[member]
    if (!Array.isArray(entries)) continue
    const kept = entries.filter((entry: unknown) => {
      const named = isJsonObject(entry) ? entry[nameMember] : undefined
      return typeof named === 'string' && mayUse(kind, named)
    })
    if (kept.length !== entries.length) filtered = { ...filtered, [member]: kept }
  }
  return filtered
}

/**
 * A filtered list must not reach another caller from a cache, and must not outlive the policy (2026-07-28, "Caching").
 * Returns the same object if its members say so already.
 */
export function forOneCaller(result: Fields, isFiltered: boolean): Fields {
  if (isFiltered) return { ...result, ttlMs: 0, cacheScope: 'private' }
  return result['cacheScope'] === 'public' ? { ...result, cacheScope: 'private' } : result
}

// References by which the policy judges the names that clients and servers use.

/** Throws `McpRefusal` for a name that can have no reference. */
export function checkedReference(server: string, kind: RequestKind, name: string, version: string): string {
  if (kind !== 'resource' && name.length > MAX_NAME) throw invalidParams('Bad name: it is too long.')
  return withValidNames(() => requestReference({ server, kind, name, version }))
}

/** The result of `build`; throws `McpRefusal` for a name that can have no reference. */
export function withValidNames<T>(build: () => T): T {
  try {
    return build()
  } catch (cause) {
    if (cause instanceof ReferenceInputError) throw invalidParams(`Bad name: ${cause.message}.`, { cause })
    throw cause
  }
}

/** The reference of an entry in a server's list; undefined for a name that cannot have one. */
export function listedReference(...named: Parameters<typeof checkedReference>): string | undefined {
  try {
    return checkedReference(...named)
  } catch (error) {
    if (error instanceof McpRefusal) return undefined
    throw error
  }
}
