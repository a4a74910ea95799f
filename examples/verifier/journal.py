"""The journal: the state after each of its lines, and the places of the sealed ranges in the tree."""

from journal_lines import SEAL_REPEATS, parse_line
from keys import Keys, key_id, public_key
from lines import check_line, lines_of, same_json, seconds_between
from merkle import leaf_hash

NAME = "audit.journal"
PIECE = 4096
LONGEST_STEP = 36 * 3_600


class State:
    """The state of the journal after the lines read so far."""

    def __init__(self):
        self.size = 0
        self.log_id = None
        self.ends = {}
        self.removed = set()
        self.keys = Keys()
        self.retention = None  # in force, days
        self.at = None  # time of the last line
        self.since = None  # time of the first line after the last long step between two lines

    def why_not(self, line):
        """Why the line does not continue the journal, None if it does."""
        kind = line["kind"]
        if (kind == "genesis") != (self.size == 0):
            return "genesis is the first line, and no other one"
        if self.size > 0 and line["log_id"] != self.log_id:
            return "another log"
        if line["leaf"] != self.size + covered(line):
            return "leaf"
        if kind == "seal":
            return self._why_not_seal(line)
        if kind == "remove" and line["day"] not in self.ends:
            return "nothing of the day is sealed"
        if kind == "fault" and line["sealed"] != self.ends.get(line["day"], 0):
            return "sealed"
        return self.why_not_keys(line)

    def _why_not_seal(self, line):
        ends, before, leaf = dict(self.ends), "", self.size
        for day, start, end, lines in line["ranges"]:
            if day in self.removed:
                return "the day is removed"
            if day < before:
                return "days do not ascend"
            if start != ends.get(day, 0):
                return "a range does not start where the last one ended"
            if lines < 1 or end - start < lines:
                return "an empty range"
            if leaf // PIECE != (leaf + lines - 1) // PIECE:
                return "a range crosses a multiple of 4096 leaves"
            before, ends[day], leaf = day, end, leaf + lines
        return None

    def repeats_wrongly(self, line):
        """Whether a seal repeats the lines before it wrongly."""
        if line["kind"] != "seal" or not any(name in line for name in SEAL_REPEATS):
            return False
        ends = {**self.ends, **{day: end for day, _, end, _ in line["ranges"]}}
        expected = {
            "ends": sorted([day, end] for day, end in ends.items()),
            "keys": self.keys.spans(),
            "retention_days": self.retention,
            "since": self._since_at(line["at"]),
        }
        return not same_json({name: line.get(name) for name in expected}, expected)

    def _since_at(self, at):
        if self.at is not None and (at[:13] == self.at[:13] or abs(seconds_between(self.at, at)) <= LONGEST_STEP):
            return self.since
        return at

    def why_not_keys(self, line):
        kind = line["kind"]
        if kind == "revoke":
            return self._why_not_leave(line["revoked"], line["until"], line)
        if kind not in ("key", "genesis"):
            return None
        if "key" in line and key_id(public_key(line["key"])) in self.keys.terms:
            return "the key has entered before"
        if kind == "genesis" or "retired" not in line:
            return None
        if line["until"] <= line["leaf"]:
            return "until"
        return self._why_not_leave(line["retired"], line["until"], line)

    def _why_not_leave(self, name, until, line):
        if name not in self.keys.terms:
            return "not a key of the log"
        signer, signed = line["key_id"], line["leaf"]
        while signer is not None:
            if signer == name and signed >= until:
                return "it takes away the trust in the key that signs it"
            term = self.keys.terms.get(signer)
            # Lines with a wrong signature may state that two keys introduced each other.
            if term is None or term["from"] > signed:
                return None
            signed, signer = term["from"] - 1, term["by"]
        return None

    def apply_keys(self, line):
        kind = line["kind"]
        if kind == "genesis":
            self.keys.enter(public_key(line["key"]), line["leaf"], None)
        elif kind == "revoke":
            self.keys.leave(line["revoked"], line["until"])
        elif kind == "key":
            if "key" in line:
                self.keys.enter(public_key(line["key"]), line["leaf"] + 1, line["key_id"])
            if "retired" in line:
                self.keys.leave(line["retired"], line["until"])

    def apply(self, line):
        self.apply_keys(line)
        for day, _, end, _ in line.get("ranges", []) if line["kind"] == "seal" else []:
            self.ends[day] = end
        if line["kind"] == "remove":
            self.ends.pop(line["day"], None)
            self.removed.add(line["day"])
        if line["kind"] == "fault":
            self.ends[line["day"]] = line["resume"]
        if line["kind"] in ("genesis", "retention"):
            self.retention = line["retention_days" if line["kind"] == "genesis" else "days"]
        self.since, self.at = self._since_at(line["at"]), line["at"]
        self.log_id = line["log_id"]
        self.size = int(line["leaf"]) + 1


def covered(line):
    return int(sum(lines for _, _, _, lines in line["ranges"])) if line["kind"] == "seal" else 0


def read_facts(data, given):
    """
    Genesis, id of the log, keys and removals; lines that are not rightly signed are passed over. The keys `given` are
    trusted if the genesis is missing.
    """
    state, genesis, log_id, removals = State(), None, None, {}
    for key, (first, until) in given.items():
        state.keys.enter(key, first, None)
        state.keys.leave(key_id(key), until)
    for number, (_, raw) in enumerate(lines_of(data)[0], 1):
        line = parse_line(raw)
        if line is None:
            continue
        log_id = log_id or line["log_id"]
        keys = state.keys
        if line["kind"] == "genesis":
            keys = Keys()
            keys.enter(public_key(line["key"]), 0, None)
        if line["log_id"] != log_id or check_line(raw, keys, line["leaf"])[0]:
            continue
        if line["kind"] == "genesis":
            if number > 1:
                continue
            genesis, state.keys = line, Keys()
        if state.why_not_keys(line) is None:
            state.apply_keys(line)
        if line["kind"] == "remove":
            removals[line["day"]] = (number, line)
    return genesis, log_id, state.keys, removals


class AssumedEnds:
    """After missing lines, the sealed bytes of a day are known again when a line states them."""

    def __init__(self):
        self.known = None

    def forget(self):
        self.known = set()

    def assume(self, state, line):
        if self.known is None:
            return
        kind = line["kind"]
        if kind == "fault":
            self._set(state, line["day"], line["sealed"])
        elif kind == "remove":
            self._set(state, line["day"], state.ends.get(line["day"], 0))
        elif kind == "seal":
            for day, start, _, _ in line["ranges"]:
                self._set(state, day, start)
            if "ends" in line:
                stated = dict(line["ends"])
                for day, end in stated.items():
                    self._set(state, day, end)
                for day in list(state.ends):
                    if day not in self.known and day not in stated:
                        del state.ends[day]
                self.known = None

    def _set(self, state, day, end):
        if day not in self.known and day not in state.removed:
            state.ends[day] = end
        self.known.add(day)


def walk(data, keys, report):
    """
    The usable lines as dicts: number, line, hash, leaf, `first` leaf that it covers, ranges (day, start, end, lines,
    leaf), `wrong`: what its own signature fails, if that was not reported; and whether ranges are unknown because lines
    are missing or of no use. `report` takes findings: line number and kind.
    """
    state, gaps, entries, ends = State(), [], [], AssumedEnds()
    damaged = incomplete = False
    is_whole = True  # each line so far continues the one before and counts
    whole, _ = lines_of(data)
    for number, (_, raw) in enumerate(whole, 1):
        line = parse_line(raw)
        if line is None:
            report(number, check_line(raw, keys, None)[0] or "bad_journal")
            damaged, is_whole = True, False
            continue
        wrong = check_line(raw, keys, line["leaf"])[0]
        # A seal that continues the journal is used before its signature is checked: a checkpoint may cover it.
        trusted = keys.at(line["key_id"], line["leaf"])
        continues = state.why_not(line) is None
        repeats_wrongly = is_whole and continues and state.repeats_wrongly(line)
        is_deferred = line["kind"] == "seal" and trusted and continues and not repeats_wrongly
        failure = None if is_deferred else wrong
        if failure or repeats_wrongly:
            report(number, failure or "bad_journal")
        is_whole = is_whole and continues and not failure
        say = (lambda number, kind: None) if failure else report
        if state.size == 0 and line["kind"] != "genesis":
            if state.log_id is None and not damaged:
                report(number, "missing_genesis")
            state.log_id = line["log_id"]
            state.keys = keys.given()
        elif state.size > 0 and line["log_id"] != state.log_id:
            say(number, "foreign")
            damaged = damaged or bool(failure)
            continue
        leaf = int(line["leaf"])
        first = leaf - covered(line)
        if first < state.size:
            inside = [gap for gap in gaps if gap["from"] <= leaf < gap["to"]]
            for gap in inside[:1]:
                gap["explained"] = True
            say(number, "reordered" if inside else "replayed")
            damaged = damaged or bool(failure)
            continue
        is_gap = first > state.size
        # A damaged line may state anything; only if it continues the journal is it of use.
        if failure and (is_gap or state.why_not(line)):
            damaged = incomplete = True
            continue
        if is_gap:
            explained = damaged or state.size == 0
            gaps.append({"number": number, "from": state.size, "to": first, "explained": explained})
            state.size = first
            ends.forget()
            incomplete = True
        ends.assume(state, line)
        damaged = False
        ranges, at = [], first
        if state.why_not(line) and not is_gap:
            say(number, "bad_journal")
            # The content of its ranges is not known.
            incomplete = True
            ends.forget()
            state.size, first = leaf + 1, leaf
        else:
            before = state.retention
            state.apply(line)
            # A line that does not count states no retention.
            state.retention = before if failure else state.retention
            for day, start, end, lines in line["ranges"] if line["kind"] == "seal" else []:
                ranges.append((day, int(start), int(end), int(lines), at))
                at += int(lines)
        entries.append(
            {
                "number": number,
                "line": line,
                "leaf": leaf,
                "first": first,
                "hash": leaf_hash(raw),
                "ranges": ranges,
                "retention": state.retention,
                "failed": bool(failure),
                "wrong": wrong if not failure else None,
            }
        )
    for gap in gaps:
        if not gap["explained"]:
            report(gap["number"], "missing_journal")
    if state.size == 0:
        report(1, "missing_genesis")
    return entries, incomplete
