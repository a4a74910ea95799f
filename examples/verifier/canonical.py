"""Canonical JSON, RFC 8785: the text that is signed and stored."""

import json
import math

MAX_DEPTH = 512
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
    if isinstance(value, list):
        return "[" + ",".join(canonical(item, depth + 1) for item in value) + "]"
    names = sorted(value, key=utf16)
    return "{" + ",".join(f"{_string(name)}:{canonical(value[name], depth + 1)}" for name in names) + "}"


def utf16(name):
    """The sort key of a member's name: its UTF-16 code units (RFC 8785 §3.2.3)."""
    return name.encode("utf-16-be", "surrogatepass")


def _string(text):
    out = []
    for character in text:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            raise NotCanonical("lone surrogate")
        out.append(ESCAPES.get(character) or (f"\\u{code:04x}" if code < 0x20 else character))
    return '"' + "".join(out) + '"'


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
