"""Canonical JSON, RFC 8785: the text that is signed and stored."""

import json
import math
import re

MAX_DEPTH = 512
SPECIAL = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class NotCanonical(ValueError):
    """The value has no canonical text."""


def parse_object(text):
    """The JSON object in `text`, None for any other text. Every number becomes a double, as in ECMAScript."""
    try:
        value = json.loads(text, parse_int=float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(name):
    raise ValueError(f"{name} is not JSON")


def canonical(value, depth=0):
    """The text of a value that `parse_object` has returned."""
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return _number(float(value))
    if depth >= MAX_DEPTH:
        raise NotCanonical("too deep")
    # One frame a level: Python has a thousand.
    parts = []
    if isinstance(value, list):
        for item in value:
            parts.append(canonical(item, depth + 1))
        return "[" + ",".join(parts) + "]"
    for name in sorted(value, key=utf16):
        parts.append(f"{_string(name)}:{canonical(value[name], depth + 1)}")
    return "{" + ",".join(parts) + "}"


def utf16(name):
    """The sort key of a member's name: its UTF-16 code units (RFC 8785 §3.2.3)."""
    return name.encode("utf-16-be", "surrogatepass")


def _string(text):
    if not SPECIAL.search(text):
        return f'"{text}"'
    if LONE_SURROGATE.search(text):
        raise NotCanonical("lone surrogate")
    escape = lambda match: ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"
    return '"' + SPECIAL.sub(escape, text) + '"'


def _number(number):
    """ECMAScript's Number::toString (ECMA-262 §6.1.6.1.20)."""
    if not math.isfinite(number):
        raise NotCanonical("not a finite number")
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    # Python's repr has the same shortest digits; only their arrangement differs.
    mantissa, _, exponent = f"{abs(number)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        power = point - 1
        rest = "." + digits[1:] if len(digits) > 1 else ""
        text = f"{digits[0]}{rest}e{'+' if power > 0 else '-'}{abs(power)}"
    return sign + text
