"""The records of the days: single records, ranges of the tree, sequence numbers, the unsealed end."""

import re

from difference import classify
from lines import check_line, lines_of, object_in
from merkle import aligned_subtrees, leaf_hash, subtree_root
from votes import OF_VOTES

LOG_ID = re.compile(r"[0-9a-f]{16}")
SEQ = re.compile(r"([0-9a-f]{16}):(0|[1-9]\d{0,15})", re.ASCII)


def daily(day):
    return f"audit-{day}.ndjson"


def place_of(record):
    """Session, number and lost ranges of a record, None if they are malformed."""
    lost, seq = record.get("lost", []), record.get("seq")
    match = SEQ.fullmatch(seq) if isinstance(seq, str) else None
    log_id = record.get("log_id")
    if match is None or not isinstance(log_id, str) or not LOG_ID.fullmatch(log_id):
        return None
    number = int(match[2])
    if number >= 2**53 or not isinstance(lost, list):
        return None
    for item in lost:
        if not isinstance(item, list) or len(item) != 2:
            return None
        if not all(isinstance(n, float) and n.is_integer() and 0 <= n < 2**53 for n in item) or item[0] > item[1]:
            return None
    return match[1], number, [(int(first), int(last)) for first, last in lost]


class Day:
    def __init__(self, name, data, keys, log_id, judged, votes=None):
        self.votes, self.event = votes, None  # the check of votes, and the record for it in the last line
        self.name, self.data, self.keys, self.log_id = name, data, keys, log_id
        self.judged = judged  # whether each record is checked by itself
        self.lines = 0  # sealed so far
        self.end = 0  # byte after the last sealed range
        self.ranges = []  # from the first changed one on
        self.changed = 0  # how many of these reach to the last changed one
        self.unconfirmed = None  # first line that no signed root confirms
        self.unlocated = False
        self.removed = False
        self.records = []  # (line index, session, number, lost, sealed)
        self.names_log = False

    def scan(self, start, end, lines, leaf):
        """A sealed range: its subtree roots (None if it is not whole), its line failures and places."""
        data = self.data[start:end]
        whole, rest = lines_of(data)
        failures, places, leaves, events = [], [], [], []
        for index, (_, line) in enumerate(whole):
            failure, place = self.check(line, leaf + index)
            if failure:
                failures.append((index, failure))
            if place:
                places.append((index, place))
            if self.event:
                events.append((index, self.event))
            leaves.append(leaf_hash(line))
        is_whole = len(whole) == lines and rest == b"" and len(data) == end - start
        roots = None
        if is_whole:
            roots = [
                (subtree_root(leaves[first - leaf : first - leaf + (1 << level)]), level)
                for first, level in aligned_subtrees(leaf, leaf + lines)
            ]
        return {"roots": roots, "failures": failures, "places": places, "events": events}

    def check(self, line, leaf):
        self.event = None
        if not self.judged:
            return None, None
        failure, record = check_line(line, self.keys, leaf, self.name, self.log_id)
        if record is not None and "log_id" in record:
            self.names_log = True
        if self.log_id is None or record is None or record.get("log_id") != self.log_id:
            return failure, None
        place = place_of(record)
        if self.votes and failure is None and place and record.get("tool") in OF_VOTES:
            self.event = record
        return failure or (None if place else "bad_sequence"), place

    def check_votes(self, events, report):
        for number, record in events:
            if self.votes.failure(record):
                report(daily(self.name), number, "bad_vote")

    def take(self, part, state, report):
        """Takes a range after it was compared with the tree: intact, changed, unconfirmed or unlocated."""
        _, start, end, lines, leaf = part["range"]
        scan = part["scan"]
        # A missing journal line has sealed the bytes before.
        self.lines += self.data.count(b"\n", self.end, max(self.end, start))
        if state == "changed" or self.ranges:
            self.ranges.append({"start": start, "end": end, "lines": lines, "leaf": leaf, "before": self.lines, **scan})
            if state == "changed":
                self.changed = len(self.ranges)
        else:
            if state in ("unconfirmed", "unlocated") and self.unconfirmed is None:
                self.unconfirmed = self.lines + 1
            if state == "unlocated" and not self.unlocated:
                self.unlocated = True
                kind = "truncated" if len(self.data) < end else "altered"
                report(daily(self.name), self.unconfirmed, kind)
            for index, kind in scan["failures"]:
                report(daily(self.name), self.lines + index + 1, kind)
            self.records += [(self.lines + index, *place, True) for index, place in scan["places"]]
            self.check_votes([(self.lines + index + 1, record) for index, record in scan["events"]], report)
        self.lines += lines
        self.end = end

    def resume(self, end):
        self.end = end
        self.lines = self.data.count(b"\n", 0, end)

    def finish(self, size, stored, report):
        """
        Reports what is known only when all ranges are. `size` is the leaf of what is not sealed yet, None if not all
        ranges are known. `stored` are the leaves in the tree files.
        """
        to_end = self._finish_changed(stored, report) if self.changed else False
        if not to_end:
            self._finish_tail(size, report)
        if not self.changed and not self.unlocated and size is not None:
            self._finish_sequences(report)

    def _finish_changed(self, stored, report):
        file, inside = daily(self.name), self.ranges[: self.changed]
        after = self.ranges[self.changed :]
        aligned = all(one["roots"] is not None for one in inside)
        first, last = inside[0], inside[-1]
        to_end = not after
        end = after[0]["start"] if after else len(self.data)
        failed = set()
        for one in self.ranges if aligned else after:
            for index, kind in one["failures"]:
                report(file, one["before"] + index + 1, kind)
                failed.add(one["before"] - first["before"] + index)
        lines = self._lines_in(first["start"], end)
        # Lines in whole ranges were checked as sealed at their leaves; of others the leaf is not known.
        checked = last["before"] + last["lines"] - first["before"] if aligned else 0
        unchecked = self._lines_in(min(last["end"], end), end) if aligned else lines
        for index, line in enumerate(unchecked, checked):
            failure, _ = self.check(line, None)
            if failure:
                report(file, first["before"] + index + 1, failure)
                failed.add(index)
        sealed = [leaf for one in inside for leaf in stored[one["leaf"] : one["leaf"] + one["lines"]]]
        findings = classify(sealed, [leaf_hash(line) for line in lines], failed, to_end, self.judged)
        for line, kind in findings:
            report(file, first["before"] + line + 1, kind)
        if not findings and not failed:
            kind = "truncated" if len(self.data) < last["end"] else "altered"
            report(file, last["before"] + last["lines"], kind)
        return to_end

    def _finish_tail(self, size, report):
        """Checks the unsealed end; a line without newline at the end is torn, unless it is a whole record."""
        lines = self._lines_in(self.end, len(self.data))
        for index, line in enumerate(lines, self.lines):
            failure, place = self.check(line, size)
            if failure:
                report(daily(self.name), index + 1, failure)
            if place:
                self.records.append((index, *place, False))
            if self.event:
                self.check_votes([(index + 1, self.event)], report)

    def _lines_in(self, start, end):
        """
        The lines that begin in `data[start:end]`. A writer that died leaves the start of a line; a whole record with
        another byte in place of its newline was edited.
        """
        if start > 0 and self.data[start - 1 : start] != b"\n":
            newline = self.data.find(b"\n", start, end)
            start = newline + 1 if newline >= 0 else end
        whole, rest = lines_of(self.data[start:end])
        lines = [line for _, line in whole]
        return lines + [rest] if rest and object_in(rest[:-1]) is not None else lines

    def _finish_sequences(self, report):
        """Every number of a session occurs once; a missing one must be named in `lost` unless only unsealed ones follow."""
        seen, lost = {}, {}
        for index, session, number, named, sealed in self.records:
            numbers = seen.setdefault(session, {})
            if number in numbers:
                report(daily(self.name), index + 1, "replayed")
            else:
                numbers[number] = sealed
            lost.setdefault(session, []).extend(named)
        for session, numbers in seen.items():
            sealed = [number for number, is_sealed in numbers.items() if is_sealed]
            for number in range(max(sealed, default=0)):
                if number not in numbers and not any(first <= number <= last for first, last in lost[session]):
                    line = next(i for i, s, n, _, _ in self.records if s == session and n > number)
                    report(daily(self.name), line + 1, "missing")
                    break
