"""Cosignatures of witnesses (c2sp.org/tlog-cosignature): the newest checkpoint that a quorum has signed."""

import re
from hashlib import sha256

from keys import has_signed, key_lines, strict_base64

VKEY = re.compile(r"([^\s+\x00-\x1f\x7f-\x9f]+)\+([0-9a-f]{8})\+(\S+)")
COSIGNATURE = b"\x04"
# Cosignatures follow a checkpoint within seconds; newer checkpoints may lack them.
LONGEST_AGE = 3_600
CANDIDATES = 64


def read_witness_keys(path):
    """The witnesses of a file of verifier keys, as tuples (name, key hash, key); a ValueError names a malformed line."""
    witnesses = []
    for number, line in key_lines(path):
        match = VKEY.fullmatch(line)
        data = strict_base64(match[3]) if match else None
        if data is None or len(data) != 33 or data[:1] != COSIGNATURE:
            raise ValueError(f"{path}:{number} is not the verifier key of a witness")
        key_hash = sha256(match[1].encode() + b"\n" + data).digest()[:4]
        if key_hash.hex() != match[2]:
            raise ValueError(f"{path}:{number} has the hash of another key")
        witnesses.append((match[1], key_hash, data[1:]))
    if not witnesses or len({key for _, _, key in witnesses}) < len(witnesses):
        raise ValueError(f"{path} holds no key, or one twice")
    return witnesses


def cosigned_at(note, witness):
    """The time at which the witness cosigned the checkpoint, in seconds; None if it has not, False if a cosignature is wrong."""
    name, key_hash, key = witness
    newest = None
    for signed_as, known, signature in note["signatures"]:
        if (signed_as, known) != (name, key_hash):
            continue
        time = int.from_bytes(signature[:8], "big")
        message = f"cosignature/v1\ntime {time}\n".encode() + note["signed"]
        if len(signature) != 72 or not 0 < time < 2**53 or not has_signed(key, message, signature[8:]):
            return False
        newest = max(time, newest or 0)
    return newest


class CosignedHead:
    def __init__(self, witnesses, quorum):
        self.witnesses, self.quorum = witnesses, quorum or len(witnesses)
        self.newest, self.candidates = None, []

    def offer(self, piece):
        """Takes a checkpoint that agrees with the tree, in the order of sizes."""
        self.newest = piece
        names = {(name, known) for name, known, _ in piece["note"]["signatures"]}
        if sum((name, key_hash) in names for name, key_hash, _ in self.witnesses) >= self.quorum:
            self.candidates = [*self.candidates[1 - CANDIDATES :], piece]

    def finish(self, now, report):
        found = self._find(now, report)
        newest = self.newest or {"file": "audit.journal", "line": 0}
        is_newest = found is not None and self.newest is not None and found[0] == self.newest["note"]["size"]
        if found is None or (not is_newest and now - found[1] > LONGEST_AGE):
            report(newest["file"], newest["line"], "missing_cosignature")

    def _find(self, now, report):
        """The size, and the time of the last member of the quorum."""
        for piece in reversed(self.candidates):
            times = []
            for witness in self.witnesses:
                time = cosigned_at(piece["note"], witness)
                if time is False:
                    report(piece["file"], piece["line"], "bad_signature")
                # A time in the future would never grow old.
                elif time is not None and time <= now + LONGEST_AGE:
                    times.append(time)
            if len(times) >= self.quorum:
                return piece["note"]["size"], sorted(times, reverse=True)[self.quorum - 1]
        return None
