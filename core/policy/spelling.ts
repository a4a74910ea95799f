// Keys are accepted in snake_case and in camelCase; for a misspelt one the most similar known key is suggested.
import type { DependencyContainer } from 'tsyringe'
import type { ConfigConflict } from '../plugin/plugin.js'
import { hostOf } from '../plugin/policy-tokens.js'

/** `requireForSideEffects` → `require_for_side_effects`; snake_case stays. */
function toSnakeCase(key: string): string {
  return key.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** `jwks_uri` → `jwksUri`; camelCase stays. */
function toCamelCase(key: string): string {
  return key.replace(/(?<=[A-Za-z0-9])_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

/** Every accepted spelling of a key, its own first. */
export function spellingsOf(key: string): string[] {
  return [...new Set([key, toSnakeCase(key), toCamelCase(key)])]
}

/** The known key of which `written` is a spelling; undefined if there is none. */
export function knownKey(written: string, known: readonly string[]): string | undefined {
  if (known.includes(written)) return written
  return known.find((key) => spellingsOf(key).includes(written))
}

/** The known word that is most similar to a misspelt one; undefined if none is similar enough. */
export function nearest(written: string, known: readonly string[]): string | undefined {
  return nearestWords(written, known)[0]
}

/** The known words that are similar to a misspelt one, the most similar first. */
export function nearestWords(written: string, known: readonly string[]): string[] {
  const target = normalized(written)
  const limit = Math.max(1, Math.floor(target.length / 3)) + 1
  return known
    .map((word) => ({ word, distance: editDistance(target, normalized(word), limit) }))
    .filter(({ distance }) => distance < limit)
    .sort((one, other) => one.distance - other.distance)
    .map(({ word }) => word)
}

/** The message about a server that `targets` does not have; undefined for a known server. */
export function unknownServer(server: string, known: readonly string[]): string | undefined {
  if (known.some((name) => name.normalize('NFC') === server.normalize('NFC'))) return undefined
  const meant = nearest(server, known)
  const hint = meant === undefined ? '' : `did you mean "${meant}"? `
  return `no target is named "${server}"; ${hint}known: ${known.join(', ') || 'none'}`
}

/** The keys of a mapping at `path` that are not targets; none if the targets are not known. */
export function unknownServers(
  path: readonly string[],
  byServer: object = {},
  bindings: DependencyContainer,
): ConfigConflict[] {
  const { servers } = hostOf(bindings)
  return Object.keys(byServer).flatMap((server) => {
    const message = servers && unknownServer(server, servers)
    return message === undefined ? [] : [{ path: [...path, server], message }]
  })
}

function normalized(word: string): string {
  return word.replace(/[_-]/g, '').toLowerCase()
}

/** Optimal string alignment distance: insertions, deletions, substitutions and transpositions; at most `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      let cost = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (same ? 0 : 1),
      )
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1)
      current.push(cost)
    }
    beforeLast = last
    last = current
  }
  return Math.min(at(last, b.length), limit)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
