"""Public keys: their ids, and the leaves for which each is trusted."""

import base64
import binascii
import re
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PREFIX = "ed25519:"
NEVER = float("inf")
LEAF = re.compile("0|[1-9][0-9]{0,15}")


def strict_base64(text):
    """The bytes, None unless `text` is padded base64 of RFC 4648 §4 without stray bits."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def public_key(line):
    """The 32 bytes of a public key line, None for another text."""
    if not isinstance(line, str) or not line.startswith(PREFIX):
        return None
    data = strict_base64(line[len(PREFIX) :])
    return data if data is not None and len(data) == 32 else None


def key_id(key):
    return PREFIX + sha256(key).hexdigest()


def has_signed(key, message, signature):
    if len(signature) != 64:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


def key_lines(path):
    """The lines of a key file with their numbers, without empty lines and comments."""
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if line != "" and not line.startswith("#"):
                yield number, line


def read_keys(path):
    """
    The keys of a file of public key lines, each with the first leaf that it may sign and the first that it may not, which
    may follow in the line; a ValueError names a line that is not a key.
    """
    keys = {}
    for number, line in key_lines(path):
        text, *leaves = line.split()
        key = public_key(text)
        if key is None or len(leaves) > 2 or not all(LEAF.fullmatch(leaf) for leaf in leaves):
            raise ValueError(f"{path}:{number} is not a public key line")
        first, until = (*map(int, leaves), *(0, NEVER)[len(leaves) :])
        if first >= until:
            raise ValueError(f"{path}:{number} names no leaf")
        keys[key] = (first, until)
    return keys


class Keys:
    """Keys with the first leaf that each may sign, and the first that it may not."""

    def __init__(self):
        self.terms = {}

    def enter(self, key, first, introduced_by):
        self.terms[key_id(key)] = {"key": key, "from": first, "until": NEVER, "by": introduced_by}

    def leave(self, name, until):
        term = self.terms.get(name)
        if term is None or term["until"] <= until:
            return
        term["until"] = until
        # Keys that the key introduced when it was no longer trusted are not trusted either.
        for other, their in list(self.terms.items()):
            if their["by"] == name and their["from"] - 1 >= until:
                self.leave(other, their["from"])

    def at(self, name, leaf):
        """The key if it may sign `leaf`; with None, if it may sign any leaf."""
        term = self.terms.get(name)
        return term["key"] if term and (leaf is None or term["from"] <= leaf < term["until"]) else None

    def all_at(self, leaf):
        return [term["key"] for name, term in self.terms.items() if self.at(name, leaf)]

    def spans(self):
        """All keys, as a seal repeats them."""
        spans = [
            [PREFIX + base64.b64encode(one["key"]).decode(), one["from"], None if one["until"] == NEVER else one["until"], one["by"]]
            for one in self.terms.values()
        ]
        return sorted(spans, key=lambda span: (span[1], span[0]))

    def only(self, trusted):
        """The keys among `trusted`, for no more leaves, and keys that one of them introduced at a leaf for which it is kept."""
        given = {key_id(key): leaves for key, leaves in trusted.items()}
        kept = Keys()
        for name, term in sorted(self.terms.items(), key=lambda item: item[1]["from"]):
            if name in given or (term["by"] and kept.at(term["by"], term["from"] - 1)):
                first, until = given.get(name, (0, NEVER))
                kept.terms[name] = {**term, "from": max(term["from"], first), "until": min(term["until"], until)}
        return kept

    def given(self):
        """The keys that no line of the journal introduced."""
        kept = Keys()
        kept.terms = {name: dict(term) for name, term in self.terms.items() if term["by"] is None}
        return kept
