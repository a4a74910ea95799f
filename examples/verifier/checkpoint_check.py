"""
Compares the checkpoints beside the log with the tree. A checkpoint that agrees with the tree and is signed by a key
covers all lines and roots before it: what this key has signed before states nothing more, and is not checked.
"""

import checkpoints
import journal
from lines import days_between


class CheckpointCheck:
    def __init__(self, keys, cosigned, strict, is_line_signed, report):
        self.keys, self.cosigned, self.is_line_signed, self.report = keys, cosigned, is_line_signed, report
        self.strict = strict  # whether signatures that others cover are checked too
        self.notes = []  # descending by size, as `read` leaves them
        self.judged = {}
        self.newest = None  # of those that agree
        self.retention = []  # pairs of a retention and the day of a line at which it was in force
        self.sealed = []  # seals, and whether each has a checkpoint
        self.pending = []  # journal lines, and checkpoints that agree with the tree, whose signatures are not judged

    def read(self, files, days, origin):
        for day in days:
            file = f"audit-{day}.checkpoint"
            for piece in checkpoints.pieces(files.read(file), origin):
                if piece["torn"]:
                    continue
                if piece["note"] is None or piece["note"]["origin"] != origin:
                    self.report(file, piece["line"], "bad_checkpoint")
                    continue
                self.notes.append({"file": file, **piece})
        self.notes.sort(key=lambda note: note["note"]["size"])
        self.notes.reverse()

    def is_signed(self, note):
        """Reports a signature that is not of a trusted key, once."""
        place = (note["file"], note["line"])
        if place not in self.judged:
            failure = checkpoints.signature_failure(note["note"], self.keys)
            if failure:
                self.report(*place, failure)
            self.judged[place] = failure is None
        return self.judged[place]

    def take(self, entry, mark, before, settle):
        """
        Compares the checkpoints up to this journal line with the tree. `mark`: how the tree leads to the root in the
        line, `before`: the size of the tree before it, `settle`: how the tree leads to the root of a claim.
        """
        size, noted, agreed = entry["leaf"] + 1, False, []
        in_force = (entry["retention"], entry["line"]["at"][:10])
        if in_force not in self.retention[-1:]:
            self.retention.append(in_force)
        while self.notes and self.notes[-1]["note"]["size"] <= size:
            note = self.notes.pop()
            if note["note"]["size"] == size:
                refuted = lambda note=note: self.report(note["file"], note["line"], "inconsistent")
                signed = lambda note=note: self.is_signed(note)
                claim = {"size": size, "root": note["note"]["root"], "signed": signed, "refuted": refuted}
                own = settle(claim)
                if own:
                    # A signed root shows that another one, which agreed with the leaves on disk, is wrong.
                    if agreed and agreed[0][0]["note"]["root"] != note["note"]["root"]:
                        for other, _ in agreed:
                            self.is_signed(other)
                        agreed = []
                    agreed.append((note, own))
                else:
                    noted = self.is_signed(note) or noted
            elif self.is_signed(note) and (note["note"]["size"] > entry["first"] or entry["first"] == before):
                self.report(note["file"], note["line"], "bad_checkpoint")
        self.pending.append({"entry": entry, "mark": mark, "agreed": agreed, "noted": noted})

    def judge(self):
        """
        Signatures of journal lines and checkpoints since the last time, the newest first: one that fits vouches for
        those of its key before it. Returns the newest mark whose root is signed.
        """
        vouching, confirmed, pending, self.pending = set(), None, self.pending, []
        for item in reversed(pending):
            valid = []
            for note, mark in reversed(item["agreed"]):
                signers = checkpoints.signers(note["note"], self.keys.all_at(note["note"]["size"] - 1))
                if not signers or not vouching.issuperset(signers):
                    if not self.is_signed(note):
                        continue
                    vouching.update([] if self.strict else signers)
                    confirmed = confirmed or mark
                valid.append(note)
            item["valid"] = valid[::-1]
            entry = item["entry"]
            if self.keys.at(entry["line"]["key_id"], entry["leaf"]) not in vouching and self.is_line_signed(entry):
                confirmed = confirmed or item["mark"]
        for item in pending:
            for note in item["valid"]:
                self.newest = note
                if self.cosigned:
                    self.cosigned.offer(note)
            if item["entry"]["line"]["kind"] == "seal":
                self.sealed.append((item["entry"], item["noted"] or item["valid"] != []))
        return confirmed

    def finish(self, journal_lines):
        if [note for note in self.notes if self.is_signed(note)]:
            self.report(journal.NAME, journal_lines + 1, "truncated")
        # A writer that died may leave its last seal without a checkpoint; the next one adds it.
        days = {entry["line"]["at"][:10] for entry, noted in self.sealed[:-1] if not noted}
        for day in sorted(days):
            if not any(days is not None and days_between(day, last) > days for days, last in self.retention):
                self.report(f"audit-{day}.checkpoint", 0, "missing_checkpoint")
        # The first checkpoint follows the genesis and at most one seal.
        if journal_lines > 2 and self.newest is None and not days:
            self.report(journal.NAME, 0, "missing_checkpoint")
