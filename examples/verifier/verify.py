#!/usr/bin/env python3
"""
Verifies an audit log, written from docs/audit-format.md alone. Needs Python 3.9 or later and the package
`cryptography` (python3-cryptography). Exit 0: intact, 1: not intact, 2: cannot be judged.
"""

import argparse
import json
import os
import sys
import time
from hashlib import sha256

import checkpoints
import journal
from agents import check_agents
from checkpoint_check import CheckpointCheck
from days import Day, daily
from files import CHECKPOINTS, DAILY, CannotJudge, Files
from journal_lines import ORIGIN
from keys import key_id, read_keys, strict_base64
from lines import days_between
from merkle import aligned_subtrees
from tree import TreeCheck, stored_leaves
from votes import VoteCheck, read_reviewers
from witnesses import CosignedHead, read_witness_keys

# The newest signatures of each run of this many leaves are checked.
LEAVES_PER_RUN = 256


class Verification:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.files = None
        self.genesis = None
        self.findings = []
        self.days = {}
        self.covers = {}
        self.bad_covers = set()
        self.failed_lines = set()
        self.journal_lines = 0
        self.judged = not options.fast
        self.cosigned = None
        self.votes = None  # the check of votes, if passkeys are given
        self.checkpoints = None
        self.run_of_leaves = 0
        self.absent_lines = {}
        self.incomplete = False  # whether ranges are not known because journal lines are missing

    def report(self, file, line, kind):
        self.findings.append({"file": file, "line": line, "kind": kind})

    def run(self):
        self.files = Files(self.folder)
        names = self.files.names
        given = read_keys(self.options.keys) if self.options.keys else self.own_keys()
        if not given:
            raise CannotJudge("no public key is known")
        if self.options.passkeys and not self.judged:
            raise CannotJudge("passkeys are checked with the records, which --fast leaves out")
        if self.options.witness_keys:
            self.cosigned = CosignedHead(read_witness_keys(self.options.witness_keys), self.options.quorum)
        has_journal = journal.NAME in names
        data = self.files.read(journal.NAME) if has_journal else b""
        genesis, log_id, found, removals = journal.read_facts(data, given)
        if self.options.keys:
            found = found.only(given)
        self.keys, self.removals, self.genesis = found, removals, genesis
        short = log_id[:16] if log_id else None
        if self.options.passkeys:
            self.votes = VoteCheck(read_reviewers(self.options.passkeys), bool(removals))
        for name in names:
            if match := DAILY.fullmatch(name):
                self.days[match[1]] = Day(match[1], self.files.read(name), found, short, self.judged, self.votes)
        notes_days = sorted(match[1] for name in names if (match := CHECKPOINTS.fullmatch(name)))
        if has_journal:
            size = self.check_tree(data, notes_days)
        else:
            size = 0
        for day in sorted(self.days):
            stored = self.tree.stored if has_journal else []
            self.days[day].finish(None if self.incomplete else size, stored, self.report)
        if not has_journal:
            names_log = any(day.names_log for day in self.days.values())
            if notes_days or names_log or self.cosigned:
                self.report(journal.NAME, 0, "missing_file")
            elif not self.options.allow_unsealed and not self.findings:
                raise CannotJudge("the log has no journal, so that missing records cannot be detected")
        if self.options.agents:
            data_of = {day: self.days[day].data for day in self.days}
            check_agents(self.folder, data_of, self.removals, self.report)
        if self.cosigned and has_journal:
            self.cosigned.finish(time.time(), self.report)
        if not self.judged and not (has_journal and self.checkpoints.newest) and not self.findings:
            raise CannotJudge("there are no checkpoints")

    def own_keys(self):
        path = os.path.join(self.folder, "public-keys")
        return read_keys(path) if os.path.exists(path) else []

    def check_tree(self, data, notes_days):
        self.tree = TreeCheck(stored_leaves(self.folder))
        origin = self.genesis["origin"] if self.genesis else self.origin_of_checkpoints(notes_days)
        if self.options.origin and self.options.origin != origin:
            self.report(journal.NAME, 0, "wrong_origin")
        self.checkpoints = CheckpointCheck(
            self.keys, self.cosigned, self.options.strict, self.is_line_signed, self.report
        )
        self.checkpoints.read(self.files, notes_days, origin)
        against = self.read_against(origin)
        size = 0
        entries, self.incomplete = journal.walk(data, self.keys, self.report_line)
        for entry in entries:
            self.take_entry(entry, size, against)
            size = entry["leaf"] + 1
        self.confirm()
        self.finish_tree()
        self.checkpoints.finish(self.journal_lines)
        for head in against:
            if head["open"]:
                self.report(journal.NAME, 0, "forked" if head["note"]["size"] <= size else "rolled_back")
        for day, cover in self.covers.items():
            if cover["data"] is not None and cover["used"] != len(cover["data"]):
                self.report(f"audit-{day}.cover", 0, "bad_cover")
        return size

    def report_line(self, number, kind):
        self.failed_lines.add(number)
        self.report(journal.NAME, number, kind)

    def origin_of_checkpoints(self, days):
        if not days:
            return ""
        first = self.files.read(f"audit-{days[-1]}.checkpoint").split(b"\n", 1)[0].decode("utf-8", "replace")
        return first if ORIGIN.fullmatch(first) else ""

    def read_against(self, origin):
        heads = []
        if not self.options.against:
            return heads
        with open(self.options.against, "rb") as file:
            data = file.read()
        own = data.split(b"\n", 1)[0].decode("utf-8", "replace")
        found = [piece for piece in checkpoints.pieces(data, own) if piece["note"]]
        if not found:
            raise CannotJudge(f"{self.options.against} holds no checkpoint")
        for piece in found:
            failure = checkpoints.signature_failure(piece["note"], self.keys)
            if piece["note"]["origin"] != origin:
                self.report(journal.NAME, 0, "wrong_origin")
            elif failure:
                self.report(self.options.against, piece["line"], failure)
            else:
                heads.append({"note": piece["note"], "open": True})
        return heads

    def take_entry(self, entry, size, against):
        if entry["leaf"] // LEAVES_PER_RUN > self.run_of_leaves:
            self.confirm()
        self.run_of_leaves = entry["leaf"] // LEAVES_PER_RUN
        self.journal_lines += 1
        if entry["first"] > size:
            self.tree.add({"first": size, "end": entry["first"], "roots": None, "kind": "gap"})
        for day, start, end, lines, leaf in entry["ranges"]:
            part = {"first": leaf, "end": leaf + lines, "kind": "range", "range": (day, start, end, lines, leaf)}
            if day in self.days:
                part["scan"] = self.days[day].scan(start, end, lines, leaf)
                part["roots"] = part["scan"]["roots"]
            else:
                part["roots"] = self.cover_of(day, leaf, lines)
            self.tree.add(part)
        line, number, leaf = entry["line"], entry["number"], entry["leaf"]
        refuted = lambda: self.report_line(number, "inconsistent")
        root = strict_base64(line["root"])
        signed = lambda: self.is_line_signed(entry)
        mark = self.settle({"size": leaf, "root": root, "signed": signed, "refuted": refuted})
        own = [(entry["hash"], 0)]
        self.tree.add({"first": leaf, "end": leaf + 1, "roots": own, "kind": "line", "entry": entry})
        self.checkpoints.take(entry, mark, size, self.settle)
        for head in against:
            if head["note"]["size"] == leaf + 1 and head["open"]:
                fork = lambda head=head: self.fork(head)
                if self.settle({"size": leaf + 1, "root": head["note"]["root"], "signed": lambda: True, "refuted": fork}):
                    head["open"] = False

    def is_line_signed(self, entry):
        """Reports a signature that does not fit, once."""
        wrong, entry["wrong"] = entry["wrong"], None
        if wrong:
            entry["failed"] = True
            self.report_line(entry["number"], wrong)
        return not entry["failed"]

    def fork(self, head):
        head["open"] = False
        self.report(journal.NAME, 0, "forked")

    def confirm(self):
        mark = self.checkpoints.judge()
        if mark:
            self.commit(self.tree.confirm(mark), [], "changed", "intact")

    def settle(self, claim):
        """The mark of the root of the claim, None if the tree does not lead to it."""
        mark = self.tree.mark(claim["root"])
        if mark or not claim["signed"]():
            return mark
        self.confirm()
        settled = self.tree.settle(claim)
        if settled is None:
            return None
        self.commit(*settled, "changed", "intact")
        return self.tree.mark(claim["root"])

    def commit(self, parts, changed, state, others):
        for part in parts:
            is_changed = any(part is one for one in changed)
            if part["kind"] == "line":
                self.commit_line(part["entry"], is_changed)
            elif part["kind"] == "range":
                day = part["range"][0]
                if day in self.days:
                    self.days[day].take(part, state if is_changed else others, self.report)
                else:
                    self.absent(day, part["range"][3], is_changed)

    def commit_line(self, entry, is_changed):
        line, number = entry["line"], entry["number"]
        if is_changed and self.is_line_signed(entry) and number not in self.failed_lines:
            self.report_line(number, "edited")
        if line["kind"] == "remove":
            lines = self.days[line["day"]].lines if line["day"] in self.days else self.absent_lines.get(line["day"], 0)
            if lines != line["lines"] and not self.incomplete:
                self.report(journal.NAME, number, "bad_journal")
            age = days_between(line["day"], line["at"][:10])
            if entry["retention"] is not None and age <= entry["retention"]:
                self.report(journal.NAME, number, "early_removal")
        if line["kind"] == "fault":
            self.report_line(number, "fault")
            if line["day"] in self.days:
                self.days[line["day"]].resume(int(line["resume"]))

    def absent(self, day, lines, is_changed):
        self.absent_lines[day] = self.absent_lines.get(day, 0) + lines
        if day in self.removals:
            if is_changed and day not in self.bad_covers:
                self.bad_covers.add(day)
                self.report(f"audit-{day}.cover", 0, "bad_cover")
        elif self.absent_lines[day] == lines:
            self.report(daily(day), 0, "missing_file")

    def finish_tree(self):
        """Reports the parts that no signed root has confirmed."""
        parts = self.tree.parts
        broken = [part for part in parts if part["roots"] is None]
        if self.tree.disputed and not broken:
            ranges = [part["range"][0] for part in parts if part["kind"] == "range"]
            in_days = [day for day in ranges if day in self.days]
            line = self.days[in_days[0]].lines + 1 if in_days else 0
            self.report(daily(ranges[0]) if ranges else journal.NAME, line, "altered")
        unconfirmed = bool(self.tree.disputed or broken)
        self.commit(parts, broken, "unlocated", "unconfirmed" if unconfirmed else "intact")

    def cover_of(self, day, leaf, lines):
        """The hashes that stand for a range of a removed day, None if they are not known."""
        if day not in self.removals:
            return None
        if day not in self.covers:
            self.covers[day] = {"data": self.read_cover(day), "used": 0}
        cover, roots = self.covers[day], []
        if cover["data"] is None:
            return None
        for _, level in aligned_subtrees(leaf, leaf + lines):
            root = cover["data"][cover["used"] : cover["used"] + 32]
            if len(root) < 32:
                return None
            roots.append((root, level))
            cover["used"] += 32
        return roots

    def read_cover(self, day):
        name = f"audit-{day}.cover"
        kind = "missing_file"
        if os.path.exists(os.path.join(self.folder, name)):
            data = self.files.read(name)
            if sha256(data).digest() == strict_base64(self.removals[day][1]["cover"]):
                return data
            kind = "bad_cover"
        self.bad_covers.add(day)
        self.report(name, 0, kind)
        return None


def verify(folder, options):
    """Verdict, reason and findings."""
    verdict, reason, verification = "intact", None, Verification(folder, options)
    try:
        verification.run()
        if verification.findings:
            verdict = "not_intact"
    except (CannotJudge, OSError, ValueError) as error:
        verdict, reason, verification.findings = "cannot_be_judged", str(error), []
    origin = verification.genesis["origin"] if verification.genesis else None
    unjudged = verification.votes.unjudged if verification.votes else None
    return {
        "verdict": verdict,
        "reason": reason,
        "failures": verification.findings,
        "origin": origin,
        "unjudged_votes": unjudged,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--keys", help="file of trusted public key lines")
    parser.add_argument("--against", help="file with a checkpoint that was kept elsewhere")
    parser.add_argument("--origin", help="the origin that the log must have")
    parser.add_argument("--witness-keys", help="file of verifier keys of witnesses that must have cosigned")
    parser.add_argument("--quorum", type=int, help="how many of them, instead of all")
    parser.add_argument("--passkeys", help="file with admin.passkeys of a policy in JSON: every vote must be proven by one")
    parser.add_argument("--strict", action="store_true", help="check every signature, those that others cover too")
    parser.add_argument("--fast", action="store_true", help="check the journal, the tree and its roots, not each record")
    parser.add_argument("--agents", action="store_true", help="compare the files of agents with the daily logs")
    parser.add_argument("--allow-unsealed", action="store_true", help="accept a log without a journal")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = verify(options.folder, options)
    verdict, reason = result["verdict"], result["reason"]
    if options.json:
        print(json.dumps(result))
    else:
        if result["origin"]:
            print("log", result["origin"])
        for finding in result["failures"]:
            print("{file}:{line}: {kind}".format(**finding), file=sys.stderr)
        print(
            "not detectable without a head kept elsewhere: a rollback, a fork, a log rewritten by the holder of a key,"
            " a former one too"
        )
        if result["unjudged_votes"]:
            print(result["unjudged_votes"], "votes not judged by approval set or role: the log does not state which applies")
        if not options.origin and not options.against:
            print("not detectable without --origin: another log of the same key in place of this one")
        print(verdict.replace("_", " ") + (f": {reason}" if reason else ""))
    sys.exit({"intact": 0, "not_intact": 1, "cannot_be_judged": 2}[verdict])


if __name__ == "__main__":
    main()
