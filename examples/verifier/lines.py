"""Checks one signed line by itself."""

import datetime
import json
import re

from canonical import NotCanonical, canonical, parse_object
from keys import PREFIX, has_signed, strict_base64
from votes import proof_failure

KEY_ID = re.compile(r"ed25519:[0-9a-f]{64}")
INSTANT = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):([0-5]\d)"
    r"(?::(?:[0-5]\d|60)(?:[.,]\d+)?)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def lines_of(data):
    """Pairs (offset, line) of the whole lines, and the bytes after the last newline."""
    lines, start = [], 0
    while (end := data.find(b"\n", start)) >= 0:
        lines.append((start, data[start:end]))
        start = end + 1
    return lines, data[start:]


def object_in(line):
    try:
        return parse_object(line.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def check_line(line, keys, leaf, day=None, log_id=None):
    """The kind of failure (None for a valid line), and the object in the line (None if there is none)."""
    stored = object_in(line)
    if stored is None:
        return "not_json", None
    signature = stored.get("sig")
    if not isinstance(signature, str):
        return "bad_signature", stored
    try:
        is_canonical = canonical(stored).encode("utf-8") == line
    except NotCanonical:
        is_canonical = False
    if not is_canonical:
        return "not_canonical", stored
    failure = _signature_failure(_cut(line, signature), signature, stored, keys, leaf, log_id)
    if failure:
        return failure, stored
    if log_id is not None and stored.get("log_id") != log_id:
        return "foreign", stored
    if day is not None and utc_day(stored.get("ts")) != day:
        return "wrong_day", stored
    return ("bad_vote" if proof_failure(stored, instant(stored.get("ts"))) else None), stored


def _cut(line, signature):
    """The canonical line without its `sig` and the comma beside it."""
    head, _, tail = line.partition(f'"sig":"{signature}"'.encode("utf-8", "surrogatepass"))
    return head[:-1] + tail if head.endswith(b",") else head + tail.removeprefix(b",")


def _signature_failure(message, signature, stored, keys, leaf, log_id):
    data = strict_base64(signature[len(PREFIX) :]) if signature.startswith(PREFIX) else None
    if data is None:
        return "bad_signature"
    name = stored.get("key_id")
    is_id = isinstance(name, str) and KEY_ID.fullmatch(name)
    # In a log without a journal, a signer without a public key may give its key any name.
    if "key_id" not in stored or (log_id is None and "log_id" not in stored and not is_id):
        return None if any(has_signed(key, message, data) for key in keys.all_at(leaf)) else "bad_signature"
    key = keys.at(name, leaf) if isinstance(name, str) else None
    if key is None:
        return "revoked_key" if isinstance(name, str) and name in keys.terms else "unknown_key"
    return None if has_signed(key, message, data) else "bad_signature"


def utc_day(instant):
    """The day of an ISO 8601 instant in UTC, None for other text."""
    match = INSTANT.fullmatch(instant) if isinstance(instant, str) else None
    if match is None:
        return None
    year, month, date, hour, minute = (int(match[group]) for group in range(1, 6))
    zone = match[6]
    try:
        day = datetime.date(year, month, date)
        minutes = hour * 60 + minute
        if zone != "Z":
            offset = int(zone[1:3]) * 60 + int(zone[4:6])
            minutes += -offset if zone[0] == "+" else offset
        return (day + datetime.timedelta(days=minutes // 1440)).isoformat()
    except (ValueError, OverflowError):
        return None


def instant(text):
    """Milliseconds since the epoch, None for another text."""
    if utc_day(text) is None:
        return None
    match = INSTANT.fullmatch(text)
    day = datetime.datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=datetime.timezone.utc)
    time, zone = text[11 : len(text) - len(match[6])], match[6]
    hours, minutes, *seconds = time.replace(",", ".").split(":")
    shift = 0 if zone == "Z" else (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 60 + int(zone[4:6]))
    whole, _, fraction = (seconds or ["0"])[0].partition(".")
    if int(whole) == 60:
        return None
    of_day = ((int(hours) * 60 + int(minutes) - shift) * 60 + int(whole)) * 1000
    return int(day.timestamp()) * 1000 + of_day + int((fraction + "000")[:3])


def days_between(earlier, later):
    date = datetime.date.fromisoformat
    return (date(later) - date(earlier)).days


def seconds_between(earlier, later):
    """The time between two instants of the journal."""
    instant = lambda text: datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    return (instant(later) - instant(earlier)).total_seconds()


def same_json(left, right):
    return json.dumps(left) == json.dumps(right)
