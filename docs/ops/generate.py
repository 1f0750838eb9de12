#!/usr/bin/env python3
"""Writes docs/ops/FAMILY.md for each header of engine/ops, from its prose, its parameter structs and
the op rows of the source beside it. With --check it only compares: exit 1 where a page is stale."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
OPS = HERE.parent.parent / "engine" / "ops"
ROW = re.compile(r'(?:\.name\s*=\s*|\w+(?:<[^<>]*(?:<[^<>]*>)?[^<>]*>)?\(\s*)"([a-z][a-z0-9_]*)",\s*'
                 r'(?:\.summary\s*=\s*)?((?:"[^"]*"\s*)+)')
STRUCT = re.compile(r"struct (\w+Params)(?: : (?:public )?(\w+))? \{(.*?)\n\};", re.S)
FIELD = re.compile(r'v\("(\w+)", (\w+)(?:,\s*\{([^}]*)\})?\)')


def prose(header):
    lines = []
    for line in header.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[3:] if line.startswith("// ") else line[2:])
    return "\n".join(lines).rstrip()


def parameters(header):
    out = []
    for name, base, body in STRUCT.findall(header):
        fields = FIELD.findall(body)
        if not fields:
            continue
        rows = []
        for shown, member, values in fields:
            found = re.search(r"(?:^|[ ,])%s\s*(?:=\s*([^;,]+)|\{([^}]*)\})?\s*[;,]" % member, body)
            default = (found.group(1) or found.group(2) or "") if found else ""
            default = re.sub(r"(?<=\d)F$", "", default.strip().split("::")[-1])
            values = re.sub(r"\s+", " ", values.replace('"', "").strip())
            rows.append(f"| `{shown}` | {default} | {values} |")
        title = f"`{name}`" + (f", besides those of `{base}`" if base and "Params" in base else "")
        out.append(f"{title}\n\n| parameter | default | values |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(out)


def page(header_path):
    source_path = header_path.with_suffix(".cpp")
    if not source_path.exists():
        return None
    header = header_path.read_text()
    found = [(n, "".join(re.findall(r'"([^"]*)"', s))) for n, s in ROW.findall(source_path.read_text())]
    ops = [(n, s) for n, s in found if s.endswith(".")]
    if not ops:
        return None
    text = [f"# {header_path.stem}", "",
            "<!-- written by docs/ops/generate.py from engine/ops; edit there -->", "",
            "| op | |", "|---|---|"]
    text += [f"| `{n}` | {s} |" for n, s in ops]
    text += ["", "```text", prose(header), "```"]
    params = parameters(header)
    if params:
        text += ["", "## Parameters", "", params]
    return "\n".join(text) + "\n", [n for n, _ in ops]


def main():
    check = "--check" in sys.argv[1:]
    stale, index = [], []
    for header_path in sorted(OPS.glob("*.h")):
        made = page(header_path)
        if made is None:
            continue
        text, ops = made
        index.append(f"- [{header_path.stem}]({header_path.stem}.md): " + ", ".join(f"`{o}`" for o in ops))
        target = HERE / f"{header_path.stem}.md"
        if not target.exists() or target.read_text() != text:
            stale.append(target.name)
            if not check:
                target.write_text(text)
    readme = ("# Ops\n\nA page per family: what each op computes, in which order it rounds, what NaN, "
              "infinities, zeros and empty tensors give.\n\n" + "\n".join(index) + "\n")
    target = HERE / "README.md"
    if not target.exists() or target.read_text() != readme:
        stale.append(target.name)
        if not check:
            target.write_text(readme)
    print(("stale: " if check else "written: ") + (", ".join(stale) or "none"))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
