// Keys are read in snake_case and in camelCase, and a misspelt one is answered with the nearest that exists.

/** `requireForSideEffects` → `require_for_side_effects`; what is snake_case already stays. */
function toSnakeCase(key: string): string {
  return key.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** `jwks_uri` → `jwksUri`; what is camelCase already stays. */
function toCamelCase(key: string): string {
  return key.replace(/(?<=[A-Za-z0-9])_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

/** Every spelling a key is read in, its own first. */
export function spellingsOf(key: string): string[] {
  return [...new Set([key, toSnakeCase(key), toCamelCase(key)])]
}

/** The known key that `written` spells; undefined when none does. */
export function knownKey(written: string, known: readonly string[]): string | undefined {
  if (known.includes(written)) return written
  return known.find((key) => spellingsOf(key).includes(written))
}

/** The known word nearest to a misspelt one; undefined when none is near enough to be meant. */
export function nearest(written: string, known: readonly string[]): string | undefined {
  const wanted = folded(written)
  let best: string | undefined
  let least = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(wanted, folded(candidate), least)
    if (distance >= least) continue
    best = candidate
    least = distance
  }
  return best
}

function folded(word: string): string {
  return word.replace(/[_-]/g, '').toLowerCase()
}

/** Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment); `limit` when not less. */
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
