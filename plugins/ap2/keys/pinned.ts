// The keys of issuers that the policy holds itself.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { readKeySet, type VerificationKey } from './verification-key.js'

interface Pinned {
  readonly keys?: readonly unknown[] | undefined
  readonly file?: string | undefined
}

/** @throws {Error} for a file that cannot be read or is no key set */
export function pinnedKeys(
  issuers: Readonly<Record<string, Pinned>>,
  baseDir: string,
): ReadonlyMap<string, readonly VerificationKey[]> {
  return new Map(
    Object.entries(issuers).map(([issuer, { keys, file }]) => {
      const set: unknown =
        file === undefined ? { keys } : JSON.parse(readFileSync(resolve(baseDir, file), 'utf8'))
      const found = readKeySet(set)
      if (found === undefined || found.length === 0) {
        throw new Error(`${file ?? 'keys'} has no public key for ES256, ES384 or EdDSA`)
      }
      return [issuer, found]
    }),
  )
}
