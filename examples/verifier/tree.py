"""Compares the tree over ranges and journal lines with the roots, and finds what has changed."""

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
        if len(data) < 32:
            return leaves
        for at in range(0, len(data) - 31, 32):
            if data[at : at + 32] == bytes(32):
                return leaves
            leaves.append(data[at : at + 32])


class TreeCheck:
    """Collects parts (dicts with `first`, `end`, `roots`) until a signed root confirms them."""

    def __init__(self, stored):
        self.stored = stored
        self.agreed = []  # pairs (root, level) of what is confirmed
        self.taken = 0  # number of parts before `parts`
        self.parts = []
        self.current = Tree()  # None while parts cannot be joined
        self.disputed = []

    def add(self, part):
        self.parts.append(part)
        if part["roots"] is None:
            self.current = None
        for root, level in part["roots"] or [] if self.current else []:
            self.current.append(root, level)

    def mark(self, root):
        """The number of parts so far, and their roots, if they lead to the root; else None."""
        if self.current is None or self.current.root() != root:
            return None
        return self.taken + len(self.parts), self.current.peaks()

    def confirm(self, mark):
        """The parts that the root of the mark confirms; it is signed."""
        count, roots = mark
        return self._agree(roots, count - self.taken) if count > self.taken else []

    def settle(self, claim):
        """
        Compares the stored leaves with a signed claim (`size`, `root`, `refuted`) that the leaves on disk do not lead
        to. Returns the parts that it confirms and those of them that have changed, None if it confirms nothing.
        """
        if not self.parts:
            claim["refuted"]()
            return None
        if len(self.stored) >= claim["size"]:
            size = self.parts[0]["first"]
            stored = joined(self.agreed + [(leaf, 0) for leaf in self.stored[size : claim["size"]]])
            if stored.root() == claim["root"]:
                self.current = stored
                parts = self._agree(stored.peaks(), len(self.parts))
                return parts, [part for part in parts if not self._is_stored(part)]
        self.disputed.append(claim)
        return None

    def _agree(self, roots, count):
        parts, self.parts = self.parts[:count], self.parts[count:]
        for claim in self.disputed:
            if claim["size"] <= parts[-1]["end"]:
                claim["refuted"]()
        self.disputed = [claim for claim in self.disputed if claim["size"] > parts[-1]["end"]]
        self.agreed, self.taken = roots, self.taken + count
        return parts

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


def joined(roots):
    tree = Tree()
    for root, level in roots:
        tree.append(root, level)
    return tree
