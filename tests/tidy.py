#!/usr/bin/env python3
"""clang-tidy over every source of a build, findings as errors.

    tests/tidy.py [--build build/debug] [--seconds N] [FILE...]

Nine tenths of clang-tidy's time goes into the standard library's headers, once a file. So sources
of one folder and the same flags are looked at a dozen at a time, as one translation unit that
includes them (the analyzer takes an included .cpp for code, not for a header). Where two of them
do not go together (a name twice), the dozen is halved until each part compiles. What changed last is looked at first, so that a limit of time
(--seconds) never hides a change. Exit code 1 with findings, 2 when a part could not be read.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

DOZEN = 24


def units(build, wanted):
    """(folder, flags) -> its sources; a source with tests of its own (tests/) is not product."""
    root = os.getcwd()
    found = {}
    with open(os.path.join(build, "compile_commands.json")) as f:
        commands = json.load(f)
    for entry in commands:
        path = os.path.relpath(entry["file"], root)
        if path.startswith(("..", "tests/", "build/")) or (wanted and path not in wanted):
            continue
        flags = re.sub(r"-Winvalid-pch( -Xclang \S+)+ ", "", entry["command"])
        flags = re.sub(r" -o \S+ -c \S+$", "", flags)
        group = found.setdefault((os.path.dirname(path), flags), [])
        if path not in group:
            group.append(path)
    return found


def changed_last():
    """path -> how many other paths changed after it"""
    log = subprocess.run(["git", "log", "--format=", "--name-only", "-n", "400"],
                         capture_output=True, text=True).stdout
    return {path: i for i, path in reversed(list(enumerate(log.split())))}


def look(flags, paths, checks):
    """(findings, read all?)"""
    with tempfile.TemporaryDirectory(prefix="etalon-tidy.") as folder:
        unit = os.path.join(folder, "unit.cpp")
        with open(unit, "w") as f:
            f.writelines(f'#include "{os.path.abspath(p)}"\n' for p in paths)
        with open(os.path.join(folder, "compile_commands.json"), "w") as f:
            json.dump([{"directory": os.getcwd(), "file": unit, "command": f"{flags} -c {unit}"}], f)
        run = subprocess.run(
            ["clang-tidy-19", "-p", folder, "--quiet", f"--config-file={checks}",
             "--checks=-bugprone-suspicious-include", unit],
            capture_output=True, text=True)
    if "clang-diagnostic-error" in run.stdout or (run.returncode and "error:" not in run.stdout):
        if len(paths) == 1:
            return run.stdout or run.stderr, False
        half = len(paths) // 2
        first, second = look(flags, paths[:half], checks), look(flags, paths[half:], checks)
        return first[0] + second[0], first[1] and second[1]
    return (run.stdout if run.returncode else ""), True


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--build", default="build/debug")
    words.add_argument("--seconds", type=float, default=float("inf"))
    words.add_argument("file", nargs="*")
    asked = words.parse_args()
    end = time.monotonic() + asked.seconds
    parts = [(flags, paths[i:i + DOZEN])
             for (_, flags), paths in sorted(units(asked.build, set(asked.file)).items())
             for i in range(0, len(paths), DOZEN)]
    age = changed_last()
    parts.sort(key=lambda part: min(age.get(path, len(age) * 1000) for path in part[1]))
    if not parts:
        sys.exit(f"{asked.build}/compile_commands.json names no such source")

    def one(part):
        return look(*part, os.path.abspath(".clang-tidy")) if time.monotonic() < end else None

    looked, findings, unread = 0, set(), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (_, paths), answer in zip(parts, pool.map(one, parts)):
            if answer is None:
                continue
            looked += len(paths)
            unread += not answer[1]
            for line in answer[0].splitlines():
                if re.search(r"(error|warning): ", line) and line not in findings:
                    findings.add(line)
                    print(os.path.relpath(line) if line.startswith("/") else line, flush=True)
    total = sum(len(paths) for _, paths in parts)
    print(f"clang-tidy: {looked} of {total} sources, {len(findings)} findings")
    sys.exit(1 if findings else 2 if unread else 0)


if __name__ == "__main__":
    main()
