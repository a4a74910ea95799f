// Inclusion and consistency proofs of RFC 6962 §2.1. A proof is a list of subtree roots; which subtrees it needs is
// computed first.

import type { Digest } from './digest.js'

/** `SHA-256(0x01 || left || right)`, RFC 6962 §2.1. */
export type NodeHash = (left: Digest, right: Digest) => Digest

/** The leaves `[start, end)`, counted from 0. */
export interface LeafSpan {
  readonly start: number
  readonly end: number
}

/**
 * The subtrees whose roots prove that leaf `index` is in the tree of `size` leaves, in the proof's order (RFC 6962 §2.1.1).
 *
 * @throws {RangeError} if the tree does not have the leaf
 */
export function inclusionRanges(index: number, size: number): LeafSpan[] {
  if (!isCount(index) || !isCount(size) || index >= size) {
    throw new RangeError(`a tree of ${size} leaves has no leaf ${index}`)
  }
  const path: LeafSpan[] = []
  let start = 0
  let end = size
  while (end - start > 1) {
    const middle = start + largestPowerBelow(end - start)
    if (index < middle) {
      path.push({ start: middle, end })
      end = middle
    } else {
      path.push({ start, end: middle })
      start = middle
    }
  }
  return path.reverse()
}

/**
 * The subtrees whose roots prove that the tree of `older` leaves is a prefix of that of `newer`, in the
 * proof's order (RFC 6962 §2.1.2).
 *
 * @throws {RangeError} unless `0 < older <= newer`.
 */
export function consistencyRanges(older: number, newer: number): LeafSpan[] {
  requireSizes(older, newer)
  const path: LeafSpan[] = []
  let start = 0
  let end = newer
  // Whether the current subtree is the whole older tree, whose root the verifier knows.
  let isOlder = true
  while (end !== older) {
    const middle = start + largestPowerBelow(end - start)
    if (older <= middle) {
      path.push({ start: middle, end })
      end = middle
    } else {
      path.push({ start, end: middle })
      start = middle
      isOlder = false
    }
  }
  if (!isOlder) path.push({ start, end })
  return path.reverse()
}

/** The root to which `path` leads from leaf `index` of a tree of `size` leaves; undefined if it is not a path of that leaf. */
export function inclusionRoot(
  leaf: Digest,
  { index, size }: { readonly index: number; readonly size: number },
  path: readonly Digest[],
  nodeHash: NodeHash,
): Digest | undefined {
  if (!isCount(index) || !isCount(size) || index >= size) return undefined
  const ranges = inclusionRanges(index, size)
  if (ranges.length !== path.length) return undefined
  return path.reduce(
    (node, sibling, step) =>
      (ranges[step]?.start ?? 0) > index ? nodeHash(node, sibling) : nodeHash(sibling, node),
    leaf,
  )
}

/**
 * The roots of the trees of `older` and of `newer` leaves to which `path` leads, the older one as a prefix of the newer;
 * undefined if it is not a path of these.
 */
export function consistencyRoots(
  older: { readonly size: number; readonly root: Digest },
  newer: number,
  path: readonly Digest[],
  nodeHash: NodeHash,
): { readonly older: Digest; readonly newer: Digest } | undefined {
  const { size, root } = older
  if (!isCount(size) || !isCount(newer) || size === 0 || size > newer) return undefined
  const ranges = size === newer ? [] : consistencyRanges(size, newer)
  if (ranges.length !== path.length) return undefined
  // Without a range that ends where the older tree ends, the walk starts at the older root.
  const startsAtOlder = ranges[0]?.end !== size
  let inOlder = startsAtOlder ? root : (path[0] ?? '')
  let inNewer = inOlder
  for (let step = startsAtOlder ? 0 : 1; step < path.length; step++) {
    const sibling = path[step] ?? ''
    if ((ranges[step]?.start ?? 0) >= size) {
      inNewer = nodeHash(inNewer, sibling)
    } else {
      inOlder = nodeHash(sibling, inOlder)
      inNewer = nodeHash(sibling, inNewer)
    }
  }
  return { older: inOlder, newer: inNewer }
}

function requireSizes(older: number, newer: number): void {
  if (!isCount(older) || !isCount(newer) || older < 1 || older > newer) {
    throw new RangeError(`no consistency proof from ${older} to ${newer} leaves`)
  }
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}

/** The largest power of two smaller than `count`, which is 2 or more. */
function largestPowerBelow(count: number): number {
  let power = 1
  while (power * 2 < count) power *= 2
  return power
}
