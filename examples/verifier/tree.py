"""Compares the tree over ranges and journal lines with the signed roots, and finds what has changed."""

import os

from merkle import Tree

PER_FILE = 65_536


def stored_leaves(folder):
    """The leaves in the files `tree/0/<k>`, as far as they are known."""
    leaves = []
    while True:
        path = os.path.join(folder, "tree", "0", str(len(leaves) // PER_FILE))
        if len(leaves) % PER_FILE or not os.path.isfile(path):
            return leaves
        with open(path, "rb") as file:
            data = file.read(PER_FILE * 32)
        for at in range(0, len(data) - 31, 32):
            if data[at : at + 32] == bytes(32):
                return leaves
            leaves.append(data[at : at + 32])


class TreeCheck:
    """Collects parts (dicts with `first`, `end`, `roots`) until a signed root confirms them."""

    def __init__(self, stored):
        self.stored = stored
        self.agreed = []  # pairs (root, level) of what is confirmed
        self.size = 0
        self.parts = []
        self.disputed = []

    def settle(self, claim):
        """
        Compares the leaves so far with the claim (`size`, `root`, `signed`, `refuted`). Returns the parts that it
        confirms and those of them that have changed, None where it confirms nothing.
        """
        if all(part["roots"] is not None for part in self.parts):
            roots = self.agreed + [root for part in self.parts for root in part["roots"]]
            if root_of(roots) == claim["root"]:
                return self._agree(roots, claim["size"], [])
        if not claim["signed"]():
            return None
        if not self.parts:
            claim["refuted"]()
            return None
        if len(self.stored) >= claim["size"]:
            roots = self.agreed + [(leaf, 0) for leaf in self.stored[self.size : claim["size"]]]
            if root_of(roots) == claim["root"]:
                return self._agree(roots, claim["size"], [part for part in self.parts if not self._is_stored(part)])
        self.disputed.append(claim)
        return None

    def _agree(self, roots, size, changed):
        parts, self.parts = self.parts, []
        for claim in self.disputed:
            claim["refuted"]()
        self.disputed = []
        self.agreed, self.size = peaks(roots), size
        return parts, changed

    def _is_stored(self, part):
        if part["roots"] is None:
            return False
        own, at = Tree(), part["first"]
        for root, level in part["roots"]:
            leaves = self.stored[at : at + (1 << level)]
            own = Tree()
            for leaf in leaves:
                own.append(leaf)
            if own.root() != root:
                return False
            at += 1 << level
        return at == part["end"]


def peaks(roots):
    tree = Tree()
    for root, level in roots:
        tree.append(root, level)
    return tree.peaks()


def root_of(roots):
    tree = Tree()
    for root, level in roots:
        tree.append(root, level)
    return tree.root()
