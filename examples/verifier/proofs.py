"""Inclusion proofs of records, c2sp.org/tlog-proof@v1."""

import re

import checkpoints
from keys import strict_base64
from lines import check_line
from merkle import leaf_hash, node_hash

INDEX = re.compile(r"index (0|[1-9]\d{0,15})", re.ASCII)


def parse(text):
    """The stored line, its index, the path and the checkpoint; None for any other text."""
    head, separator, note = text.partition("\n\n")
    version, *rest = head.split("\n")
    if version != "c2sp.org/tlog-proof@v1" or separator == "" or len(rest) < 2:
        return None
    extra, index, *hashes = rest
    line = strict_base64(extra[len("extra ") :]) if extra.startswith("extra ") else None
    place, path = INDEX.fullmatch(index), [strict_base64(one) for one in hashes]
    checkpoint = checkpoints.parse(note)
    if line is None or place is None or checkpoint is None or int(place[1]) >= 2**53:
        return None
    if any(one is None or len(one) != 32 for one in path):
        return None
    return {"line": line, "leaf": int(place[1]), "path": path, "checkpoint": checkpoint}


def root_of(leaf, index, size, path):
    """The root to which the path leads (RFC 9162 §2.1.3.2), None if it has another length."""
    if index >= size:
        return None
    at, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if at & 1 or at == last:
            node = node_hash(sibling, node)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        at, last = at >> 1, last >> 1
    return node if last == 0 else None


def failure(proof, keys, judged):
    """
    Why the proof does not show its record in a log of one of the keys, None if it does; and the record. `judged` is a dict
    for the checkpoints of proofs with the same keys, as many proofs have the same one.
    """
    checkpoint, leaf = proof["checkpoint"], proof["leaf"]
    name = checkpoint["signed"], tuple(checkpoint["signatures"])
    if name not in judged:
        judged[name] = checkpoints.signature_failure(checkpoint, keys)
    kind = judged[name]
    if kind:
        return f"checkpoint: {kind}", None
    if root_of(leaf_hash(proof["line"]), leaf, checkpoint["size"], proof["path"]) != checkpoint["root"]:
        return "the record does not lead to the root of its checkpoint", None
    kind, record = check_line(proof["line"], keys, leaf)
    if kind is None and "journal" in record:
        kind = "a line of the journal"
    return (f"record: {kind}" if kind else None), record
