"""The files of a log."""

import os
import re
import stat

from journal import NAME

DAILY = re.compile(r"audit-(\d{4}-\d\d-\d\d)\.ndjson", re.ASCII)
COVER = re.compile(r"audit-\d{4}-\d\d-\d\d\.cover", re.ASCII)
CHECKPOINTS = re.compile(r"audit-(\d{4}-\d\d-\d\d)\.checkpoint", re.ASCII)
LEAVES = os.path.join("tree", "0")
LONGEST_LINE = 64 << 20
LARGEST_FILE, LARGEST_TREE_FILE = 256 << 20, 65_536 * 32


class CannotJudge(Exception):
    """The log cannot be judged."""


class Files:
    """The journal, daily logs and checkpoint files of a folder; CannotJudge if they are not a log."""

    def __init__(self, folder):
        self.folder = folder
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise CannotJudge(str(error)) from error
        self._check(names)
        self.names = [one for one in names if DAILY.fullmatch(one) or CHECKPOINTS.fullmatch(one) or one == NAME]
        if not self.names:
            raise CannotJudge("there is no log")
        if not any(CHECKPOINTS.fullmatch(name) or self.read(name) for name in self.names):
            raise CannotJudge("there are no records")

    def _check(self, names):
        """Every file that is read later must be a regular file of a size that a writer makes."""
        limits = {name: LARGEST_FILE for name in names if CHECKPOINTS.fullmatch(name) or COVER.fullmatch(name)}
        limits.update({name: LARGEST_FILE for name in names if name == "public-keys"})
        limits.update({name: None for name in names if DAILY.fullmatch(name) or name == NAME})
        if os.path.isdir(os.path.join(self.folder, LEAVES)):
            leaves = os.listdir(os.path.join(self.folder, LEAVES))
            limits.update({os.path.join(LEAVES, name): LARGEST_TREE_FILE for name in leaves if name.isdecimal()})
        for name, limit in limits.items():
            found = os.lstat(os.path.join(self.folder, name))
            if not stat.S_ISREG(found.st_mode):
                raise CannotJudge(f"{name} is not a regular file")
            if limit is not None and found.st_size > limit:
                raise CannotJudge(f"{name} has {found.st_size} bytes, at most {limit} are read")

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            lines = []
            while line := file.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    raise CannotJudge(f"a line of {name} is longer than any record")
                lines.append(line)
            return b"".join(lines)
