"""Writes `unrack/verbs.py`: one function for each verb of the command, generated from `unrack __definition`.

Usage: python/generate.py path/to/unrack
"""

import json
import keyword
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

HEAD = '''"""Verbs of the command, as functions. Written by `python/generate.py` from the command's own definition.

Each runs the command and returns a `Result`; `compare` and `map` are evaluated in this process, and the command only makes
the runs. Arguments are those of the command: numbers, or text with units (`"10us"`, `"25%"`, `"100Gbps"`). A function raises
`Refused`, `Failed` or `Lacking`, depending on the exit status. Ctrl-C ends the command.
"""

from unrack.results import Result, Value, Values, called
'''

# Verbs that print a shell script, for which a Python function has no use.
LEFT_OUT = {"completions"}
# Line length of the generated file: the same as ruff's in pyproject.toml.
WIDTH = 110


def flatten(
    verbs: list[dict[str, Any]], above: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Returns every verb that can be run, with its full name; verbs that only group others are left out."""
    found = []
    for verb in verbs:
        name = (*above, verb["name"])
        if verb["name"] in LEFT_OUT:
            continue
        if verb["arguments"] or not verb["verbs"]:
            found.append((name, verb))
        found += flatten(verb["verbs"], name)
    return found


def python_name(text: str) -> str:
    """Returns the name as a valid Python identifier: hyphens become underscores, and a keyword gets one appended."""
    name = text.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def function(name: tuple[str, ...], verb: dict[str, Any]) -> str:
    """Returns the Python source of the function for one verb."""
    options = [one for one in verb["arguments"] if one["long"] and one["name"] != "json"]
    positional = [one for one in verb["arguments"] if not one["long"]]
    json_flag = next((one for one in verb["arguments"] if one["name"] == "json"), None)
    json_to = None if json_flag is None else "stdout" if json_flag["is_flag"] else "file"
    out = next((one for one in options if one["name"] == "out" and not one["is_flag"]), None)
    parameters, values = [], []
    for one in positional:
        parameter = python_name(one["name"])
        if one["is_list"]:
            parameters.append(f"*{parameter}: Value")
            values.append(f"*{parameter}")
        else:
            parameters.append(
                f"{parameter}: Value" if one["is_required"] else f"{parameter}: Value | None = None"
            )
            values.append(parameter)
    if options and not any(one.startswith("*") for one in parameters):
        parameters.append("*")
    for one in options:
        kind = "bool" if one["is_flag"] else "Values | None" if one["is_list"] else "Value | None"
        default = "False" if one["is_flag"] else "None"
        needed = one["is_required"] and one is not out
        parameters.append(
            f"{python_name(one['long'])}: {kind.removesuffix(' | None')}"
            if needed
            else f"{python_name(one['long'])}: {kind} = {default}"
        )
    given = ", ".join(f'"--{one["long"]}": {python_name(one["long"])}' for one in options)
    lists = ", ".join(
        f'"--{one["long"]}": {json.dumps(one["delimiter"])}' for one in options if one["is_list"]
    )
    call = [json.dumps(list(name)), f"{{{given}}}"]
    if positional:
        optional = [one for one in positional if not one["is_list"] and not one["is_required"]]
        listed = ", ".join(values)
        call.append(f"[one for one in [{listed}] if one is not None]" if optional else f"[{listed}]")
    call += [f"lists={{{lists}}}"] if lists else []
    call += [f'json_to="{json_to}"'] if json_to else []
    call += ['out="--out"'] if out is not None else []
    call += ["trailing=True"] if any(one["name"] == "command" for one in positional) else []
    signature = f"def {python_name('_'.join(name))}({', '.join(parameters)}) -> Result:"
    body = f"    return called({', '.join(call)})".replace("null", "None")
    return f"{signature}\n{docs(verb, [*positional, *options])}\n{body}\n"


def docs(verb: dict[str, Any], arguments: list[dict[str, Any]]) -> str:
    """Returns the docstring of a verb's function: the verb's help text, and each argument's help text with its default."""
    lines = [f'    """{verb["about"]}.']
    if arguments:
        lines += ["", "    Args:"]
    for one in arguments:
        default = "" if one["is_flag"] or not one["defaults"] else f" (default: {', '.join(one['defaults'])})"
        choices = f" One of {', '.join(one['choices'])}." if one["choices"] and not one["is_flag"] else ""
        name = python_name(one["long"] or one["name"])
        text = f"{name}: {' '.join((one['help'] or '').split())}{default}.{choices}".replace(
            "..", "."
        ).replace("\\", "\\\\")
        lines += textwrap.wrap(text, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
    closing = '    """'
    return "\n".join([*lines, closing] if arguments else [f'{lines[0]}"""'])


def main() -> None:
    """Generates `unrack/verbs.py` and formats it with ruff."""
    printed = subprocess.run([sys.argv[1], "__definition"], check=True, capture_output=True, text=True)
    functions = [function(*verb) for verb in flatten(json.loads(printed.stdout))]
    text = "\n\n".join([HEAD, *functions])
    formatted = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "format",
            "--line-length",
            str(WIDTH),
            "--stdin-filename",
            "verbs.py",
            "-",
        ],
        input=text,
        check=True,
        capture_output=True,
        text=True,
    )
    Path(__file__).with_name("unrack").joinpath("verbs.py").write_text(formatted.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
