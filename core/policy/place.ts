// Where a part of the policy stands, found by its path after the schemas have judged it.
import type { Origin } from './diagnostic.js'
import { type MapEntry, type PolicyNode, pathOfMember } from './node.js'
import { knownKey } from './spelling.js'

/** The place of what is missing is that of its nearest parent. The path is as the author wrote it. */
export function placeIn(
  sections: ReadonlyMap<string, MapEntry>,
  root: Origin,
  [section, ...rest]: readonly (string | number)[],
): Found {
  const entry = sections.get(String(section))
  let place: Found = { origin: entry?.origin ?? root, path: entry?.key ?? String(section), node: entry?.node }
  for (const key of rest) place = memberOf(place, key)
  return place
}

interface Found {
  readonly origin: Origin
  readonly path: string
  /** Undefined where the policy says nothing there. */
  readonly node: PolicyNode | undefined
}

function memberOf({ origin, path, node }: Found, key: string | number): Found {
  if (typeof key === 'number') {
    const item = node?.kind === 'list' ? node.items[key] : undefined
    return { origin: item?.origin ?? origin, path: `${path}[${key}]`, node: item }
  }
  const entries = node?.kind === 'map' ? node.entries : []
  const entry = entries.find((one) => knownKey(one.key, [key]) !== undefined)
  return {
    origin: entry?.origin ?? origin,
    path: pathOfMember(path, entry?.key ?? key),
    node: entry?.node,
  }
}
