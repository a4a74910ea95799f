"""Checkpoints: signed notes (c2sp.org/signed-note, c2sp.org/tlog-checkpoint)."""

import re
from hashlib import sha256

from journal_lines import ORIGIN
from keys import has_signed, strict_base64

SIGNATURE = re.compile(r"— ([^\s+]+) (\S+)")
COUNT = re.compile(r"0|[1-9]\d{0,15}", re.ASCII)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\ud800-\udfff]")


def pieces(data, origin):
    """Dicts `line`, `note` (None if the piece is not a checkpoint), `torn`: the parts of a checkpoint file."""
    first = f"{origin}\n".encode()
    starts, at = [0] if data else [], data.find(first, 1)
    while at >= 0:
        if data[at - 1 : at] == b"\n":
            starts.append(at)
        at = data.find(first, at + 1)
    # A torn note may end within its first line.
    if starts and (end := _end_of_note(data[starts[-1] :])) and starts[-1] + end < len(data):
        starts.append(starts[-1] + end)
    found, line = [], 1
    for start, end in zip(starts, starts[1:] + [len(data)]):
        raw = data[start:end]
        try:
            note = parse(raw.decode("utf-8"))
        except UnicodeDecodeError:
            note = None
        torn = end == len(data) and _end_of_note(raw) is None
        found.append({"line": line, "note": note, "torn": torn})
        line += raw.count(b"\n")
    return found


def _end_of_note(data):
    """The offset after the whole signature lines of the note at the start, None if there are none."""
    start = end = data.find(b"\n\n") + 2
    if start == 1:
        return None
    while data.startswith("— ".encode(), end) and (newline := data.find(b"\n", end)) >= 0:
        end = newline + 1
    return None if end == start else end


def parse(text):
    """Origin, size, root and signatures of one checkpoint, None for anything else."""
    if CONTROL.search(text) or not text.endswith("\n"):
        return None
    separator = text.rfind("\n\n")
    if separator < 1:
        return None
    signatures = []
    for line in text[separator + 2 : -1].split("\n"):
        match = SIGNATURE.fullmatch(line)
        data = strict_base64(match[2]) if match else None
        if data is None or len(data) <= 4:
            return None
        signatures.append((match[1], data[:4], data[4:]))
    if len(signatures) > 16:
        return None
    lines = text[: separator + 1].split("\n")
    if len(lines) != 4 or lines[3] != "":
        return None
    origin, size, root = lines[0], lines[1], strict_base64(lines[2])
    if not ORIGIN.fullmatch(origin) or not COUNT.fullmatch(size) or root is None or len(root) != 32:
        return None
    if int(size) >= 2**53:
        return None
    signed = text[: separator + 1].encode()
    return {"origin": origin, "size": int(size), "root": root, "signed": signed, "signatures": signatures}


def signature_failure(note, keys):
    """Why the checkpoint does not count, None if a key signed it that is trusted at its last leaf."""
    kind = _judge(note, keys.all_at(note["size"] - 1))
    return (_judge(note, keys.all_at(None)) or "revoked_key") if kind == "unknown_key" else kind


def signers(note, keys):
    """The keys among `keys` that should have signed the note; empty if one of them cannot be a signature."""
    found = []
    for name, known, signature in note["signatures"]:
        key = _key_of(note, name, known, keys)
        if key is not None and len(signature) != 64:
            return []
        found += [key] if key is not None else []
    return found


def _key_of(note, name, known, keys):
    for key in keys:
        preimage = name.encode() + b"\n\x01" + key
        if name == note["origin"] and sha256(preimage).digest()[:4] == known:
            return key
    return None


def _judge(note, keys):
    verified = False
    for name, known, signature in note["signatures"]:
        key = _key_of(note, name, known, keys)
        if key is None:
            continue
        if not has_signed(key, note["signed"], signature):
            return "bad_signature"
        verified = True
    return None if verified else "unknown_key"
