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


def check_agents(folder, days, removed, report):
    """
    Each file must have the lines of one agent run of the day, in their order. `days` has the bytes of the daily logs. Of
    the days in `removed` some files may be removed already.
    """
    present = _present(folder)
    for day in sorted({*days, *present}):
        expected = {}
        for _, line in lines_of(days.get(day, b""))[0]:
            record = object_in(line) or {}
            node, run = record.get("nodeId"), record.get("agentRef")
            if isinstance(node, str) and isinstance(run, str):
                expected.setdefault(f"agents/{segment(node)}/{day}/{segment(run)}.ndjson", []).append(line)
        for file in sorted({*([] if day in removed else expected), *present.get(day, [])}):
            line = _first_difference(os.path.join(folder, file), expected.get(file, []))
            if line is not None:
                report(file, line, "agent_file")


def _present(folder):
    """The files of agents by the name of their day's folder."""
    found, agents = {}, os.path.join(folder, "agents")
    for node in _folders(agents):
        for day in _folders(os.path.join(agents, node)):
            of_day = os.path.join(agents, node, day)
            for name in os.listdir(of_day):
                if name.endswith(".ndjson") and stat.S_ISREG(os.lstat(os.path.join(of_day, name)).st_mode):
                    found.setdefault(day, []).append(f"agents/{node}/{day}/{name}")
    return found


def _folders(path):
    names = os.listdir(path) if os.path.isdir(path) else []
    return [name for name in names if stat.S_ISDIR(os.lstat(os.path.join(path, name)).st_mode)]


def _first_difference(path, expected):
    """The number of the first line that differs, None if none does."""
    if not os.path.isfile(path):
        return 1
    with open(path, "rb") as file:
        lines = [line for _, line in lines_of(file.read())[0]]
    if lines == expected:
        return None
    same = (index for index, (own, daily) in enumerate(zip(lines, expected)) if own != daily)
    return next(same, min(len(lines), len(expected))) + 1
