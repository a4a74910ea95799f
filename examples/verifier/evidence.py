#!/usr/bin/env python3
"""
Checks an evidence file, as `svc-sdk audit bundle` writes it, without running its page. Written from
docs/audit-format.md alone. Exit 0: every record is proven and the page is one of svc-sdk, 1: not, 2: cannot be judged.
"""

import argparse
import json
import os
import sys
import time
from hashlib import sha256

import proofs
from canonical import NotCanonical, canonical, parse_object
from days import place_of
from keys import Keys, key_id, read_keys
from lines import instant, utc_day
from witnesses import LONGEST_AGE, cosigned_at, read_witness_keys

START = '<script type="application/json" id="evidence">'
PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pages.txt")
ESCAPED = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029\ufffd"}
MAX_PAGE_BYTES = 256 * 2**20
COUNTS, LISTS = ("more", "not_sealed"), ("records", "definitions")
MEMBERS = {"evidence", "made_at", "made_by", "filter", *COUNTS, *LISTS}
TEXTS = ("ts", "trace_id", "span_id", "tenant", "server", "tool", "status", "sig")
FILTER = "since until tenant tool server decision status trace_id span_id agent principal error escalation policy_sha256"


class NotEvidence(ValueError):
    """The file is not an evidence file, or was changed around its data."""


def read_evidence(raw):
    """The data of the page, which has nothing else that is not in a page of svc-sdk."""
    if len(raw) > MAX_PAGE_BYTES:
        raise NotEvidence("it is larger than any evidence file")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise NotEvidence("the file is not UTF-8")
    start = text.find(START) + len(START)
    end = text.find("<", start)
    with open(PAGES, encoding="ascii") as file:
        known = {line.split()[0] for line in file if line.strip()}
    if start < len(START) or end < 0 or sha256((text[:start] + text[end:]).encode("utf-8")).hexdigest() not in known:
        raise NotEvidence("around its data, the file is not a page of svc-sdk: it may show other than its data")
    data = text[start:end]
    value = parse_object(data)
    if value is None or not is_evidence(value):
        raise NotEvidence("its data is not that of an evidence file")
    try:
        written = canonical(value)
    except NotCanonical:
        written = ""
    for character, escape in ESCAPED.items():
        written = written.replace(character, escape)
    if written != data:
        raise NotEvidence("its data is not in the form in which it is written")
    return value


def is_evidence(value):
    is_text = lambda one: isinstance(one, str)
    return (
        set(value) == MEMBERS
        and value["evidence"] == 1
        and value["evidence"] is not True
        and is_text(value["made_at"])
        and is_text(value["made_by"])
        and all(type(value[name]) is float and value[name] >= 0 and value[name].is_integer() for name in COUNTS)
        and all(isinstance(value[name], list) and all(map(is_text, value[name])) for name in LISTS)
        and isinstance(value["filter"], dict)
        and set(value["filter"]) <= set(FILTER.split())
        and all(map(is_text, value["filter"].values()))
    )


def is_selected(record, chosen):
    """Whether the record is of the selection that the file states."""
    policy, principal = record.get("policy"), record.get("principal")
    principal = principal if isinstance(principal, dict) else {}
    named = lambda wanted, actual: actual == wanted or str(actual).startswith(f"{wanted}@")
    equal = {"tenant": "tenant", "status": "status", "trace_id": "trace_id", "span_id": "span_id", "error": "error"}
    equal["escalation"] = "escalation_id"
    at = instant(record.get("ts"))
    for name, wanted in chosen.items():
        if name in equal:
            fits = record.get(equal[name]) == wanted
        elif name in ("tool", "server"):
            fits = named(wanted, record.get(name))
        elif name == "decision":
            fits = isinstance(policy, dict) and policy.get("decision") == wanted
        elif name == "agent":
            fits = wanted in (record.get("agentRef"), record.get("nodeId"))
        elif name == "principal":
            fits = wanted in (principal.get("user"), principal.get("user_id"), principal.get("client_id"))
        elif name == "policy_sha256":
            digest = record.get("policy_sha256")
            fits = isinstance(digest, str) and digest.startswith(wanted)
        else:
            bound = instant(f"{wanted}T00:00:00Z" if len(wanted) == 10 else wanted)
            fits = bound is not None and at is not None and (at >= bound if name == "since" else at < bound)
        if not fits:
            return False
    return True


def definition_failure(record, named):
    event = record.get("event")
    if record["tool"] != "definitions/serve@1" or not isinstance(event, dict) or not isinstance(event.get("text"), str):
        return "it is not the record of a definition"
    digest = sha256(event["text"].encode("utf-8")).hexdigest()
    if digest != event.get("sha256"):
        return "its definition has another hash"
    return None if digest in named else "no record names its definition"


def is_record(record):
    """Whether the members that all readers use are present."""
    policy = record.get("policy")
    return (
        all(isinstance(record.get(name), str) for name in TEXTS)
        and type(record.get("latency_ms")) is float
        and isinstance(policy, dict)
        and isinstance(policy.get("decision"), str)
    )


class Rules:
    """What holds for the records of a file together, once each is proven by itself."""

    def __init__(self, chosen):
        self.chosen, self.seen, self.log_ids, self.named = chosen, set(), {}, set()

    def is_again(self, *key):
        known = key in self.seen
        self.seen.add(key)
        return known

    def failure(self, name, origin, leaf, record):
        # The definitions that any proven record names, even one that may not stand here.
        if name == "records" and isinstance(record.get("definition_sha256"), str):
            self.named.add(record["definition_sha256"])
        if self.is_again(name, origin, leaf):
            return "it is in the file twice"
        place, day = place_of(record), utc_day(record.get("ts"))
        if not is_record(record) or place is None or day is None:
            return "it lacks members of a record"
        if self.log_ids.setdefault(origin, record["log_id"]) != record["log_id"]:
            return "it is of another log than the records before it"
        if self.is_again(name, origin, day, *place[:2]):
            return "it is a copy of another record"
        if name == "definitions":
            return definition_failure(record, self.named)
        return None if is_selected(record, self.chosen) else "it is not of the selection that the file states"


def cosignature_failure(checkpoint, witnesses, quorum):
    times = [cosigned_at(checkpoint, witness) for witness in witnesses]
    if False in times:
        return "a cosignature of its checkpoint is wrong"
    # A time in the future would never grow old.
    valid = sum(at is not None and at <= time.time() + LONGEST_AGE for at in times)
    return None if valid >= quorum else f"{valid} of {quorum} required witnesses cosigned its checkpoint"


def check(raw, given, witnesses=(), quorum=None):
    """The failures: triples of list, number from 1, and reason. @raise NotEvidence"""
    evidence = read_evidence(raw)
    if not evidence["records"]:
        raise NotEvidence("it has no record")
    keys = Keys()
    keys.terms = {
        key_id(key): {"key": key, "from": first, "until": until, "by": None} for key, (first, until) in given.items()
    }
    quorum = len(witnesses) if quorum is None else quorum
    failures, logs, rules, judged = [], {}, Rules(evidence["filter"]), {}
    for name in LISTS:
        for number, text in enumerate(evidence[name], 1):
            proof = proofs.parse(text)
            reason, record = proofs.failure(proof, keys, judged) if proof else ("it is not a proof of a record", None)
            if reason is None:
                checkpoint = proof["checkpoint"]
                origin = checkpoint["origin"]
                logs[origin] = max(logs.get(origin, 0), checkpoint["size"])
                reason = rules.failure(name, origin, proof["leaf"], record)
                reason = reason or cosignature_failure(checkpoint, witnesses, quorum)
            if reason:
                failures.append((name, number, reason))
    return evidence, logs, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--keys", required=True, help="file of trusted public key lines")
    parser.add_argument("--witness-keys", help="file of verifier keys of witnesses that must have cosigned")
    parser.add_argument("--quorum", type=int, help="how many of them, instead of all")
    options = parser.parse_args()
    try:
        given = read_keys(options.keys)
        witnesses = read_witness_keys(options.witness_keys) if options.witness_keys else ()
        with open(options.file, "rb") as file:
            raw = file.read(MAX_PAGE_BYTES + 1)
    except (OSError, ValueError) as error:
        print(f"cannot be judged: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        evidence, logs, failures = check(raw, given, witnesses, options.quorum)
    except NotEvidence as error:
        print(f"NOT PROVEN: {error}")
        sys.exit(1)
    for origin, size in logs.items():
        print(f"log {json.dumps(origin)}, a checkpoint of {size} leaves")
    for name, number, reason in failures[:20]:
        print(f"{name} {number}: {reason}")
    print(f"selected, as the file says, by: {json.dumps(evidence['filter'])}")
    print("not shown by such a file: whether these are all the records of the selection")
    print(f"NOT PROVEN: {len(failures)} failures" if failures else f"proven: {len(evidence['records'])} records")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
