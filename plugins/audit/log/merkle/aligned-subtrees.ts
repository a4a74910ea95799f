// The maximal aligned subtrees of a range of leaves. Their roots stand for the range in any larger tree.

export interface Subtree {
  /** Index of its first leaf, a multiple of `2^level`. */
  readonly start: number
  readonly level: number
}

/** The fewest complete subtrees that tile the leaves `[start, end)`, left to right. */
export function alignedSubtrees(start: number, end: number): Subtree[] {
  const subtrees: Subtree[] = []
  for (let at = start; at < end; ) {
    let level = 0
    while (at % 2 ** (level + 1) === 0 && at + 2 ** (level + 1) <= end) level++
    subtrees.push({ start: at, level })
    at += 2 ** level
  }
  return subtrees
}
