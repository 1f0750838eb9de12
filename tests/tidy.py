#!/usr/bin/env python3
"""clang-tidy over every source of a build, findings as errors.

    tests/tidy.py [--build build/debug] [--seconds N] [FILE...]

Nine tenths of clang-tidy's time goes into the headers, once a file. So sources of the same flags
are looked at a dozen at a time, as one translation unit that includes them (the analyzer takes an
included .cpp for code, not for a header). Where two of them do not go together (a name twice), the
dozen is halved until each part compiles.

What changed last is looked at first, so that a limit of time (--seconds) never hides a change; a
part that the limit cuts short is not counted as looked at. A source without findings is remembered
under .etalon/tidy until it, a header of ours that it reaches, its flags or the checks change: a run
goes on where the last one ended. Exit code 1 with findings, 2 when a part could not be read.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

CHECKS = os.path.abspath(".clang-tidy")
CLEAN = ".etalon/tidy"
DOZEN = 24
DOZEN_IN_A_HURRY = 6  # so that what changed last does not wait for what lies beside it


def commands_of(build, wanted):
    """flags -> its sources; a source with tests of its own (tests/) is not product."""
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
        sources = found.setdefault(flags, [])
        if path not in sources:
            sources.append(path)
    return found


def changed_last():
    """path -> how many other paths changed after it"""
    log = subprocess.run(["git", "log", "--format=", "--name-only", "-n", "400"],
                         capture_output=True, text=True).stdout
    return {path: i for i, path in reversed(list(enumerate(log.split())))}


@functools.lru_cache(None)
def read(path):
    with open(path, "rb") as f:
        return f.read()


@functools.lru_cache(None)
def headers_of(path):
    """The headers of ours that a file names."""
    named = re.findall(rb'#include "([^"]+)"', read(path))
    return [name.decode() for name in named if os.path.exists(name)]


@functools.lru_cache(None)
def reached_by(path):
    """A source and the headers of ours that it reaches."""
    reached, left = {path}, [path]
    while left:
        for header in headers_of(left.pop()):
            if header not in reached:
                reached.add(header)
                left.append(header)
    return reached


def mark(flags, path):
    """Where a clean source is remembered: by all that decides its findings."""
    digest = hashlib.sha256(read(CHECKS) + flags.encode())
    for name in sorted(reached_by(path)):
        digest.update(name.encode() + b"\0" + read(name))
    return os.path.join(CLEAN, digest.hexdigest()[:32])


def look(flags, paths, until):
    """(findings, sources that could not be read), or None when the time was up"""
    with tempfile.TemporaryDirectory(prefix="etalon-tidy.") as folder:
        unit = os.path.join(folder, "unit.cpp")
        with open(unit, "w") as f:
            f.writelines(f'#include "{os.path.abspath(p)}"\n' for p in paths)
        with open(os.path.join(folder, "compile_commands.json"), "w") as f:
            json.dump([{"directory": os.getcwd(), "file": unit, "command": f"{flags} -c {unit}"}], f)
        try:
            run = subprocess.run(
                ["clang-tidy-19", "-p", folder, "--quiet", f"--config-file={CHECKS}",
                 "--checks=-bugprone-suspicious-include", unit],
                capture_output=True, text=True,
                timeout=max(1, until - time.monotonic()) if until else None)
        except subprocess.TimeoutExpired:
            return None
    if "clang-diagnostic-error" in run.stdout or (run.returncode and "error:" not in run.stdout):
        if len(paths) == 1:
            return run.stdout or run.stderr, paths
        half = len(paths) // 2
        parts = [look(flags, part, until) for part in (paths[:half], paths[half:])]
        if None in parts:
            return None
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    return (run.stdout if run.returncode else ""), []


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--build", default="build/debug")
    words.add_argument("--seconds", type=float)
    words.add_argument("-j", type=int, default=os.cpu_count())
    words.add_argument("file", nargs="*")
    asked = words.parse_args()
    until = time.monotonic() + asked.seconds if asked.seconds else None
    age = changed_last()
    os.makedirs(CLEAN, exist_ok=True)
    parts, known, total = [], 0, 0
    for flags, sources in sorted(commands_of(asked.build, set(asked.file)).items()):
        total += len(sources)
        new = [p for p in sources if not os.path.exists(mark(flags, p))]
        known += len(sources) - len(new)
        # In a hurry by age alone; else neighbours, which include the same.
        new.sort(key=lambda p: (age.get(p, len(age)), p) if until else p)
        size = DOZEN_IN_A_HURRY if until else DOZEN
        parts += [(flags, new[i:i + size]) for i in range(0, len(new), size)]
    if not total:
        sys.exit(f"{asked.build}/compile_commands.json names no such source")
    parts.sort(key=lambda part: min(age.get(path, len(age)) for path in part[1]))

    looked, findings, unread = 0, set(), []

    def one(part):
        if until and time.monotonic() > until:
            return None
        return look(*part, until)

    with concurrent.futures.ThreadPoolExecutor(asked.j) as pool:
        answers = {pool.submit(one, part): part for part in parts}
        for done in concurrent.futures.as_completed(answers):
            if done.result() is None:
                continue
            (flags, paths), (text, lost) = answers[done], done.result()
            looked += len(paths)
            unread += lost
            new = {os.path.relpath(line) if line.startswith("/") else line
                   for line in text.splitlines() if re.search(r"(error|warning): ", line)}
            for line in sorted(new - findings):
                print(line, flush=True)
            findings |= new
            faulty = {line.split(":")[0] for line in new}
            for path in [] if lost else paths:
                if not faulty & reached_by(path):
                    open(mark(flags, path), "w").close()
    print(f"clang-tidy: {looked} of {total} sources looked at, {known} known to be clean, "
          f"{len(findings)} findings")
    if unread:
        print("not readable:", " ".join(unread))
    sys.exit(1 if findings else 2 if unread else 0)


if __name__ == "__main__":
    main()
