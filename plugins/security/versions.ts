// Checks `allow_versions`. A server that is not listed is not restricted.

import type { Finding, RequestKind } from '@svc/core'
import { compilePatternSet, parseNameSegment } from '@svc/core/match'
import { finding } from './findings.js'

const PREFIX = 'mcp://'

export class AllowedVersions {
  #allowed: ReadonlyMap<string, readonly string[]>
  #patterns: ReturnType<typeof compilePatternSet>

  constructor(allowVersions: Readonly<Record<string, readonly string[]>>) {
    const entries = Object.entries(allowVersions).map(
      ([server, versions]) => [server.normalize('NFC'), versions] as const,
    )
    this.#allowed = new Map(entries)
    this.#patterns = compilePatternSet(
      entries.flatMap(([server, versions]) => versions.map((version) => versionPattern(server, version))),
    )
  }

  /** The allowed versions of the reference's server; undefined where the server is not restricted. */
  allowedFor(reference: string): readonly string[] | undefined {
    const server = reference.slice(PREFIX.length, reference.indexOf('/', PREFIX.length))
    return this.#allowed.get(server.includes('%') ? parseNameSegment(server, 'server name') : server)
  }

  /** A `ReferenceRule`. `unversioned` matches no pattern, not even `*`. */
  check(reference: string, kind: RequestKind): Finding | undefined {
    if (kind === 'protocol') return undefined
    const allowed = this.allowedFor(reference)
    if (allowed === undefined) return undefined
    const version = reference.slice(reference.lastIndexOf('@') + 1)
    if (version !== 'unversioned' && this.#patterns.matches(reference)) return undefined
    const accepted = allowed.length === 0 ? 'no version is allowed' : `allowed are ${allowed.join(', ')}`
    return finding('version_unpinned', `${reference} has version ${version}; ${accepted}`)
  }
}

/** The reference pattern for a version of a server. `*` is a wildcard only in the version. */
export function versionPattern(server: string, version: string): string {
  return `${encodeName(server).replaceAll('*', '%2A')}/*@${encodeName(version)}`
}

function encodeName(text: string): string {
  return text.replace(/[/@%]/g, encodeURIComponent)
}
