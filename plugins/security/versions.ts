// Checks `allow_versions`. A server that is not listed is not restricted.

import type { Finding, RequestKind } from '@svc/core'
import { type Glob, globMatches, globOf, isVersion, parseNameSegment } from '@svc/core/match'
import { finding } from './findings.js'

const PREFIX = 'mcp://'

/** An invalid pattern; the message is for the author of the policy. */
export class VersionPatternError extends Error {
  override readonly name = 'VersionPatternError'
}

/** @throws {VersionPatternError} for a pattern that no version can match */
export function parseVersionPattern(source: string): Glob {
  if (!isVersion(source.replaceAll('*', '0')))
    throw new VersionPatternError('a version has letters, digits, ".", "_", "+" and "-"; the wildcard is *')
  return globOf(source)
}

interface Allowed {
  readonly sources: readonly string[]
  readonly globs: readonly Glob[]
}

// Callers choose references, so the memory for those that passed is bounded.
const MAX_PASSED = 1024
const MAX_PASSED_LENGTH = 256

export class AllowedVersions {
  #allowed: ReadonlyMap<string, Allowed>
  /** References whose version is allowed: most calls are of few tools. */
  #passed = new Set<string>()

  /** @throws {VersionPatternError} */
  constructor(allowVersions: Readonly<Record<string, readonly string[]>>) {
    this.#allowed = new Map(
      Object.entries(allowVersions).map(([server, sources]) => [
        server.normalize('NFC'),
        { sources, globs: sources.map(parseVersionPattern) },
      ]),
    )
  }

  /** The allowed versions of the reference's server; undefined if the server is not restricted. */
  allowedFor(reference: string): readonly string[] | undefined {
    return this.#of(reference)?.sources
  }

  /** A `ReferenceRule`. `unversioned` matches no pattern, not even `*`. */
  check(reference: string, kind: RequestKind): Finding | undefined {
    if (kind === 'protocol' || this.#passed.has(reference)) return undefined
    const allowed = this.#of(reference)
    if (allowed === undefined) return undefined
    const version = reference.slice(reference.lastIndexOf('@') + 1)
    if (version !== 'unversioned' && matches(allowed, version)) {
      if (this.#passed.size >= MAX_PASSED) this.#passed.clear()
      if (reference.length <= MAX_PASSED_LENGTH) this.#passed.add(reference)
      return undefined
    }
    const { sources } = allowed
    const accepted = sources.length === 0 ? 'no version is allowed' : `allowed are ${sources.join(', ')}`
    return finding('version_unpinned', `${reference} has version ${version}; ${accepted}`)
  }

  #of(reference: string): Allowed | undefined {
    const server = reference.slice(PREFIX.length, reference.indexOf('/', PREFIX.length))
    return this.#allowed.get(server.includes('%') ? parseNameSegment(server, 'server name') : server)
  }
}

/** A star matches only characters of a version, and no separator. */
function matches({ globs }: Allowed, version: string): boolean {
  return isVersion(version) && globs.some((glob) => globMatches(glob, version))
}
