"""Lines of the journal: their members and forms."""

import datetime
import re

from canonical import NotCanonical, canonical
from keys import public_key, strict_base64
from lines import object_in

LOG_ID = re.compile(r"[0-9a-f]{32}")
KEY_ID = re.compile(r"ed25519:[0-9a-f]{64}")
ORIGIN = re.compile(r"[^\s+\x00-\x1f\x7f-\x9f]{1,255}")
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
AT = re.compile(r"(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z", re.ASCII)


def is_count(value):
    return isinstance(value, float) and value.is_integer() and 0 <= value < 2**53


def is_text(pattern):
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def is_day(value):
    if not is_text(DAY)(value):
        return False
    try:
        return datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def is_instant(value):
    match = AT.fullmatch(value) if isinstance(value, str) else None
    return match is not None and is_day(match[1])


def is_root(value):
    data = strict_base64(value) if isinstance(value, str) else None
    return data is not None and len(data) == 32


def is_retention(value):
    return isinstance(value, float) and value >= 1


def is_key(value):
    return public_key(value) is not None


def is_parent(value):
    return (
        isinstance(value, dict)
        and is_text(ORIGIN)(value.get("origin"))
        and is_count(value.get("size"))
        and is_root(value.get("root"))
    )


def list_of(*checks):
    def check(value):
        return isinstance(value, list) and all(
            isinstance(item, list) and len(item) == len(checks) and all(map(lambda one, it: one(it), checks, item))
            for item in value
        )

    return check


def or_null(check):
    return lambda value: value is None or check(value)


COMMON = {
    "journal": lambda value: value == 1.0 and not isinstance(value, bool),
    "log_id": is_text(LOG_ID),
    "leaf": is_count,
    "root": is_root,
    "at": is_instant,
    "key_id": is_text(KEY_ID),
    "sig": lambda value: isinstance(value, str),
}
MEMBERS = {
    "genesis": {
        "format": lambda value: value == 1.0 and not isinstance(value, bool),
        "origin": is_text(ORIGIN),
        "retention_days": is_retention,
        "key": is_key,
    },
    "seal": {"ranges": list_of(is_day, is_count, is_count, is_count)},
    "remove": {"day": is_day, "lines": is_count, "cover": is_root},
    "fault": {"day": is_day, "sealed": is_count, "found": is_count, "resume": is_count},
    "key": {},
    "revoke": {"revoked": is_text(KEY_ID), "until": is_count},
    "retention": {"days": is_retention},
}
OPTIONAL = {
    "genesis": {"parent": is_parent},
    "seal": {
        "ends": list_of(is_day, is_count),
        "keys": list_of(is_key, is_count, or_null(is_count), or_null(is_text(KEY_ID))),
        "retention_days": is_retention,
        "since": is_instant,
    },
    "key": {"key": is_key, "retired": is_text(KEY_ID), "until": is_count},
}

# The members with which the first seal of an hour repeats the lines before.
SEAL_REPEATS = tuple(OPTIONAL["seal"])


def parse_line(data):
    """A well-formed journal line in canonical form, else None. Its signature is not checked."""
    line = object_in(data)
    kind = line.get("kind") if line else None
    if not isinstance(kind, str) or kind not in MEMBERS:
        return None
    if not all(check(line.get(name)) for name, check in {**COMMON, **MEMBERS[kind]}.items()):
        return None
    if not all(name not in line or check(line[name]) for name, check in OPTIONAL.get(kind, {}).items()):
        return None
    if kind == "key" and ("key" not in line and "retired" not in line or ("retired" in line) != ("until" in line)):
        return None
    try:
        return line if canonical(line).encode("utf-8") == data else None
    except NotCanonical:
        return None
