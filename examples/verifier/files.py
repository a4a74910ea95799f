"""The files of a log."""

import os
import re
import stat

from journal import NAME

DAILY = re.compile(r"audit-(\d{4}-\d\d-\d\d)\.ndjson", re.ASCII)
CHECKPOINTS = re.compile(r"audit-(\d{4}-\d\d-\d\d)\.checkpoint", re.ASCII)


class CannotJudge(Exception):
    """Nothing can be said about the log."""


class Files:
    """The journal, daily logs and checkpoint files of a folder; CannotJudge where they are no log."""

    def __init__(self, folder):
        self.folder = folder
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise CannotJudge(str(error)) from error
        self.names = [one for one in names if DAILY.fullmatch(one) or CHECKPOINTS.fullmatch(one) or one == NAME]
        for name in self.names:
            if not stat.S_ISREG(os.lstat(os.path.join(folder, name)).st_mode):
                raise CannotJudge(f"{name} is not a regular file")
        if NAME not in names and self._is_old(names):
            raise CannotJudge("the log has the old format with checkpoints of each day")
        if not self.names:
            raise CannotJudge("there is no log")
        if not any(CHECKPOINTS.fullmatch(name) or self.read(name) for name in self.names):
            raise CannotJudge("there are no records")

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def _is_old(self, names):
        if "audit-removed.notes" in names or any(re.fullmatch(r"audit-[\d-]{10}\.tree", name) for name in names):
            return True
        first = next((name for name in names if CHECKPOINTS.fullmatch(name)), None)
        return first is not None and re.match(rb"svc-audit/[^\n/]+/\d{4}-", self.read(first)) is not None
