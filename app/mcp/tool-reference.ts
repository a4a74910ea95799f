import { formatReference, ReferenceInputError } from '@svc/core/match'
import { MAX_NAME } from './name-limits.js'

/** The reference of a tool that a server lists; undefined for a name that cannot be part of one. */
export function toolReference(server: string, tool: string, version: string): string | undefined {
  if (tool.length > MAX_NAME) return undefined
  try {
    return formatReference({ server, tool, version })
  } catch (error) {
    if (error instanceof ReferenceInputError) return undefined
    throw error
  }
}
