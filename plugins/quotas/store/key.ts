// Under which name a tenant's use of a tool is counted.
import { createHash } from 'node:crypto'

/** Characters; three bytes each at most, which the stores' own limits leave room for. */
const LONGEST = 400

/**
 * The length tells where the tenant ends, whatever characters it has. A long name, or one that UTF-8 cannot carry,
 * goes by its SHA-256.
 */
export function keyOf(tenant: string, tool: string): string {
  const key = `${tenant.length}:${tenant}:${tool}`
  if (key.length <= LONGEST && key.isWellFormed()) return key
  return `#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`
}
