// References by which the policy judges the names that clients and servers use.
import { type RequestKind, requestReference } from '@svc/core'
import { ReferenceInputError } from '@svc/core/match'
import { invalidParams, McpRefusal } from './message.js'
import { MAX_NAME } from './protocol.js'

/** Throws `McpRefusal` for a name that can have no reference. */
export function checkedReference(server: string, kind: RequestKind, name: string, version: string): string {
  if (kind !== 'resource' && name.length > MAX_NAME) throw invalidParams('Bad name: it is too long.')
  try {
    return requestReference({ server, kind, name, version })
  } catch (cause) {
    throw badName(cause)
  }
}

/** `McpRefusal` for the error of a name that can have no reference; another error as it is. */
export function badName(cause: unknown): unknown {
  if (!(cause instanceof ReferenceInputError)) return cause
  return invalidParams(`Bad name: ${cause.message}.`, { cause })
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
