// Inclusion and consistency proofs, by the walks of RFC 9162 §2.1.3.2 and §2.1.4.2, which give the roots that a proof
// leads to.

import { type Bytes, hexOf, sha256 } from './bytes.js'

const LEAF = Uint8Array.of(0)
const NODE = Uint8Array.of(1)
const MAX_KNOWN = 50_000

export function hashOfLeaf(line: Bytes): Promise<Bytes> {
  return sha256(LEAF, line)
}

// Proofs of neighbours share most of their nodes.
const known = new Map<string, Promise<Bytes>>()

function parent(left: Bytes, right: Bytes): Promise<Bytes> {
  const key = hexOf(left) + hexOf(right)
  const found = known.get(key) ?? sha256(NODE, left, right)
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(key, found)
  return found
}

const isOdd = (index: number) => index % 2 === 1
const half = (index: number) => Math.floor(index / 2)

/** The root of the tree of `size` leaves in which `path` places the leaf at `index`; undefined if it has another length. */
export async function rootFrom(
  leaf: Bytes,
  index: number,
  size: number,
  path: readonly Bytes[],
): Promise<Bytes | undefined> {
  if (index >= size) return undefined
  let [at, last, node] = [index, size - 1, leaf]
  for (const sibling of path) {
    if (last === 0) return undefined
    const isRight = isOdd(at) || at === last
    node = await (isRight ? parent(sibling, node) : parent(node, sibling))
    if (isRight && !isOdd(at)) while (!isOdd(at) && at !== 0) [at, last] = [half(at), half(last)]
    ;[at, last] = [half(at), half(last)]
  }
  return last === 0 ? node : undefined
}

export interface TreeRoots {
  readonly older: Bytes
  readonly newer: Bytes
}

/**
 * The roots of the trees of `older` and `newer` leaves to which `path` leads, the older one as a prefix of the newer;
 * undefined if the path has another length.
 *
 * @param root of the older tree, with which the walk begins if that tree is complete.
 */
export async function prefixRoots(
  older: number,
  newer: number,
  root: Bytes,
  path: readonly Bytes[],
): Promise<TreeRoots | undefined> {
  if (older < 1 || older > newer) return undefined
  if (older === newer) return path.length === 0 ? { older: root, newer: root } : undefined
  let [at, last] = [older - 1, newer - 1]
  while (isOdd(at)) [at, last] = [half(at), half(last)]
  const nodes = at === 0 ? [root, ...path] : [...path]
  const [first, ...rest] = nodes
  if (first === undefined) return undefined
  let [inOlder, inNewer] = [first, first]
  for (const node of rest) {
    if (last === 0) return undefined
    if (isOdd(at) || at === last) {
      inOlder = await parent(node, inOlder)
      inNewer = await parent(node, inNewer)
      while (!isOdd(at) && at !== 0) [at, last] = [half(at), half(last)]
    } else {
      inNewer = await parent(inNewer, node)
    }
    ;[at, last] = [half(at), half(last)]
  }
  return last === 0 ? { older: inOlder, newer: inNewer } : undefined
}
