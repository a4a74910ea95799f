"""The differences between a day's log and its sealed leaves."""

WINDOWS = (64, 1_024, 16_384, 262_144)


def differences(sealed, log):
    """Pairs of slices that differ, in order: (start, end of sealed, start, end of log, whether no sealed leaf follows)."""
    hunks = []
    i = j = 0
    while True:
        while i < len(sealed) and j < len(log) and sealed[i] == log[j]:
            i, j = i + 1, j + 1
        if i == len(sealed):
            hunks.append((i, i, j, len(log), True))
            return hunks
        removed, added, at_end = _next_match(sealed, i, log, j)
        hunks.append((i, i + removed, j, j + added, at_end))
        i, j = i + removed, j + added
        if at_end:
            return hunks


def _next_match(sealed, i, log, j):
    """How many leaves to skip on either side until both agree again, with the smallest sum in the smallest window."""
    for window in WINDOWS:
        left, right = sealed[i : i + window], log[j : j + window]
        places = {leaf: at for at, leaf in reversed(list(enumerate(right)))}
        best = None
        for removed, leaf in enumerate(left):
            added = places.get(leaf)
            if added is not None and (best is None or removed + added < sum(best)):
                best = (removed, added)
        if best is not None:
            return (*best, False)
        if len(sealed) - i < window and len(log) - j < window:
            break
    return len(sealed) - i, len(log) - j, True


def classify(sealed, log, failed, to_end, judged):
    """
    Findings: pairs of line, counted from 0, and kind. `failed` are the lines that have a finding of their own; they get
    no second one. With `to_end`, new lines after the last sealed one are not sealed yet, which is not a finding. Unless lines
    were `judged`, as many of these as are missing are taken for edited ones.
    """
    hunks = [(*hunk[:4], hunk[4] and to_end) for hunk in differences(sealed, log)]
    removed = {leaf for start, end, _, _, _ in hunks for leaf in sealed[start:end]}
    added = {leaf for _, _, start, end, _ in hunks for leaf in log[start:end]}
    all_sealed = set(sealed)
    findings = []
    for sealed_start, sealed_end, log_start, log_end, at_end in hunks:
        missing = [i for i in range(sealed_start, sealed_end) if sealed[i] not in added]
        unknown = []
        for line in range(log_start, log_end):
            if log[line] in removed:
                findings.append((line, "reordered"))
            elif log[line] in all_sealed and not at_end:
                findings.append((line, "replayed"))
            elif not at_end or line in failed or (not judged and len(unknown) < len(missing)):
                unknown.append(line)
        pairs = min(len(missing), len(unknown))
        for at, line in enumerate(unknown):
            if line not in failed:
                findings.append((line, "edited" if at < pairs else "inserted"))
        if missing[pairs:]:
            findings.append((unknown[-1] + 1 if unknown else log_start, "truncated" if at_end else "deleted"))
    return findings
