"""Merkle trees of RFC 6962 §2.1, built from subtree roots."""

from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(line):
    return sha256(b"\x00" + line).digest()


def node_hash(left, right):
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """A growing tree: the roots of its complete subtrees, largest first."""

    def __init__(self):
        self.size = 0
        self._roots = []

    def append(self, root, level=0):
        """Appends a complete subtree of 2**level leaves; `size` must be a multiple of that."""
        assert self.size % (1 << level) == 0
        rest = self.size >> level
        while rest & 1:
            root = node_hash(self._roots.pop(), root)
            rest >>= 1
        self._roots.append(root)
        self.size += 1 << level

    def peaks(self):
        """Pairs (root, level) of the complete subtrees, largest first."""
        levels = [level for level in range(self.size.bit_length(), -1, -1) if self.size >> level & 1]
        return list(zip(self._roots, levels))

    def root(self):
        if not self._roots:
            return EMPTY_ROOT
        root = self._roots[-1]
        for left in reversed(self._roots[:-1]):
            root = node_hash(left, root)
        return root


def aligned_subtrees(start, end):
    """The largest aligned complete subtrees that tile the leaves [start, end): pairs (first leaf, level)."""
    subtrees = []
    while start < end:
        level = (start & -start).bit_length() - 1 if start else (end - start).bit_length()
        while (1 << level) > end - start:
            level -= 1
        subtrees.append((start, level))
        start += 1 << level
    return subtrees


def subtree_root(leaves):
    """The root of 2**n leaves."""
    while len(leaves) > 1:
        leaves = [node_hash(leaves[i], leaves[i + 1]) for i in range(0, len(leaves), 2)]
    return leaves[0]
