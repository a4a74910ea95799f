// The key under which a tenant's calls of a tool are counted.
import { createHash } from 'node:crypto'

/** Characters, of at most three bytes each: within the key limits of the stores. */
const MAX_LENGTH = 400

/**
 * The length marks the end of the tenant, which may contain any character. A long key, or one that UTF-8 cannot
 * encode, is replaced by its SHA-256.
 */
export function keyOf(tenant: string, tool: string): string {
  const key = `${tenant.length}:${tenant}:${tool}`
  if (key.length <= MAX_LENGTH && key.isWellFormed()) return key
  return `#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`
}
