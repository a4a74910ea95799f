// References by which the policy judges the names that clients and servers use.
import { type RequestKind, requestReference } from '@svc/core'
import { ReferenceInputError } from '@svc/core/match'
import { invalidParams, McpRefusal } from './mcp-refusal.js'
import { MAX_NAME } from './name-limits.js'

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
