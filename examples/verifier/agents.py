"""The files of agents, which are derived from the daily logs."""

import os
import stat
from hashlib import sha256

from lines import lines_of, object_in

SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
LONGEST, KEPT = 200, 150


def segment(name):
    """The path segment of an id."""
    data = name.encode("utf-8", "replace")
    text = "".join(chr(byte) if byte in SAFE else f"%{byte:02X}" for byte in data)
    if text in ("", ".", ".."):
        return {"": "%", ".": "%2E", "..": "%2E%2E"}[text]
    return f"{text[:KEPT]}-{sha256(data).hexdigest()}" if len(text) > LONGEST else text


def check_agents(folder, days, report):
    """Each file must have the lines of one agent run of the day, in their order. `days` are pairs of day and bytes."""
    for day, data in days:
        expected = {}
        for _, line in lines_of(data)[0]:
            record = object_in(line) or {}
            node, run = record.get("nodeId"), record.get("agentRef")
            if isinstance(node, str) and isinstance(run, str):
                expected.setdefault(f"agents/{segment(node)}/{day}/{segment(run)}.ndjson", []).append(line)
        for file in sorted({*expected, *_present(folder, day)}):
            line = _first_difference(os.path.join(folder, file), expected.get(file, []))
            if line is not None:
                report(file, line, "agent_file")


def _present(folder, day):
    agents = os.path.join(folder, "agents")
    for node in os.listdir(agents) if os.path.isdir(agents) else []:
        of_day = os.path.join(agents, node, day)
        for name in os.listdir(of_day) if os.path.isdir(of_day) else []:
            if name.endswith(".ndjson") and stat.S_ISREG(os.lstat(os.path.join(of_day, name)).st_mode):
                yield f"agents/{node}/{day}/{name}"


def _first_difference(path, expected):
    """The number of the first line that differs, None where none does."""
    if not os.path.isfile(path):
        return 1
    with open(path, "rb") as file:
        lines = [line for _, line in lines_of(file.read())[0]]
    if lines == expected:
        return None
    same = (index for index, (own, daily) in enumerate(zip(lines, expected)) if own != daily)
    return next(same, min(len(lines), len(expected))) + 1
