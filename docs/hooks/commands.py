"""Reference of the command: a page for each verb, made of `unrack __definition`."""

from cells import cell, said_by_unrack, sentence, table
from mkdocs.structure.files import File

INTRODUCTION = """# Command

`unrack VERB --help` prints the same, with examples. Exit status: 0 done; 1 failed while running, or `--fail-if` held; 2 bad usage or
scenario; 3 the machine lacks something needed; of `unrack run` otherwise the program's own.

"""


def on_files(files, config):
    """Adds the pages."""
    verbs = said_by_unrack("__definition")
    rows = [[f"[`{verb['name']}`]({verb['name']}.md)", sentence(verb["about"])] for verb in verbs]
    pages = {"index": INTRODUCTION + table(["verb", "job"], rows)}
    pages |= {verb["name"]: verb_text("unrack", verb, "#") for verb in verbs}
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/commands/{name}.md", content=text))
    return files


def verb_text(above, verb, mark):
    """Returns the text of a verb and of those below it."""
    name = f"{above} {verb['name']}"
    rows = [
        [f"`{written(one)}`", default(one), sentence(one["help"]) + chosen(one)] for one in verb["arguments"]
    ]
    text = (
        f"{mark} `{name}`\n\n{sentence(verb['about'])}\n\n{table(['argument', 'default', 'meaning'], rows)}\n"
    )
    return text + "".join(verb_text(name, below, f"{mark}#") for below in verb["verbs"])


def written(argument):
    """Returns an argument as it is written on a command line."""
    more = "..." if argument["is_list"] and not argument["delimiter"] else ""
    if argument["long"] is None:
        return argument["name"].upper() + more
    value = "" if argument["is_flag"] else f" {argument['name'].upper()}"
    return f"--{argument['long']}{value}{more}"


def default(argument):
    """Returns an argument's default, or that it has to be given."""
    if argument["is_required"]:
        return "required"
    return ", ".join(f"`{cell(one)}`" for one in argument["defaults"]) if not argument["is_flag"] else ""


def chosen(argument):
    """Returns the words that an argument may have."""
    words = [] if argument["is_flag"] else argument["choices"]
    return f" One of {', '.join(f'`{word}`' for word in words)}." if words else ""
