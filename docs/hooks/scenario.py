"""Reference of the scenario file: a page for each section and for each fabric's parameters, made of `unrack schema`."""

import json

from cells import cell, said_by_unrack, sentence, table
from mkdocs.structure.files import File

INTRODUCTION = """# Scenario

A scenario is a TOML file. Each section has a page; `unrack scenario explain FILE` prints all keys of a file with their values and
where these are from, and `unrack schema` prints the JSON Schema of which these pages are made, for editors.

Times, sizes and rates are texts with units: `"10ns"`, `"4KiB"`, `"100Gbps"`. `[]` stands for the elements of a list.

"""
# A variant for files that extend another, whose kind is not known to them.
ANY_KIND = "extended"


def on_files(files, config):
    """Adds the pages."""
    pages = dict(written(said_by_unrack("schema")["properties"]))
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def written(sections):
    """Yields the path and the text of each page."""
    tables = {name: schema for name, schema in sections.items() if is_section(schema)}
    rows = [
        [f"[`{name}`]({name}.md)", sentence(schema.get("description"))] for name, schema in tables.items()
    ]
    single = [
        row
        for name, schema in sections.items()
        if name not in tables
        for row in key_rows(name, schema, set())
    ]
    text = f"{INTRODUCTION}{table(['section', 'is'], rows)}\nBeside the sections:\n\n{key_table(single)}"
    yield "reference/scenario/index.md", text
    for name, schema in tables.items():
        if name == "fabric":
            yield "reference/scenario/fabric.md", fabric_text(schema)
            yield from fabric_pages(schema)
        else:
            yield f"reference/scenario/{name}.md", section_text(name, schema)


def is_section(schema):
    """Returns whether a schema has keys of its own."""
    return any(key in schema for key in ("properties", "items")) or bool(kinds(schema))


def kinds(schema):
    """Returns the kinds of a table that has keys by its kind, with their schemas."""
    variants = [
        one for one in schema.get("oneOf", []) if "properties" in one and one.get("title") != ANY_KIND
    ]
    return {one["title"]: one for one in variants}


def fabric_text(schema):
    """Returns the page that lists the fabrics."""
    rows = [[f"[`{name}`](fabrics/{name}.md)", meaning(one)] for name, one in kinds(schema).items()]
    return (
        f"# `[fabric]`\n\n{sentence(schema.get('description'))} `protocol` is one of these; each has parameters of its own. What "
        f"they assume and promise is in [protocols](../../protocols.md).\n\n{table(['protocol', 'is'], rows)}"
    )


def fabric_pages(schema):
    """Yields a page for each fabric."""
    for name, one in kinds(schema).items():
        keys = key_table(rows_of(one, "", {"protocol"}))
        text = f"# `{name}`\n\n{meaning(one)}\n\n{keys or 'It has no parameters.'}\n"
        yield f"reference/scenario/fabrics/{name}.md", text


def section_text(name, schema):
    """Returns the page of a section: its keys, and those of each kind of table in it."""
    is_list = "items" in schema
    table_of = schema["items"] if is_list else schema
    text = f"# `{f'[[{name}]]' if is_list else f'[{name}]'}`\n\n{sentence(schema.get('description'))}\n\n"
    text += key_table(rows_of(table_of, "", set()))
    for key, inside in {"": schema, **table_of.get("properties", {})}.items():
        for kind, one in kinds(inside).items():
            title = f"{key}.kind" if key else "kind"
            text += f'\n## `{title} = "{kind}"`\n\n{meaning(one)}\n\n{key_table(rows_of(one, "", {"kind"}))}'
    return text


def meaning(variant):
    """Returns what a kind is: the description of the key that names it, or else of its table."""
    named = next((one for one in variant["properties"].values() if one.get("const") == variant["title"]), {})
    return sentence(named.get("description") or variant.get("description"))


def key_table(rows):
    """Returns a table of keys."""
    return table(["key", "type", "default", "meaning"], rows)


def rows_of(schema, prefix, without):
    """Returns the rows of the keys of a table, in the order of their names."""
    needed = set(schema.get("required", []))
    names = (name for name in schema.get("properties", {}) if name not in without)
    return [row for name in names for row in key_rows(prefix + name, schema["properties"][name], needed)]


def key_rows(name, schema, needed):
    """Returns the row of a key, and of the keys below it."""
    inside = next(
        (one for one in alternatives(schema) if "properties" in one and one.get("title") is None), None
    )
    items = next((one["items"] for one in alternatives(schema) if isinstance(one.get("items"), dict)), {})
    listed = next((one for one in alternatives(items) if "properties" in one), None)
    below = rows_of(inside, f"{name}.", set()) if inside else []
    below += rows_of(listed, f"{name}[].", set()) if listed else []
    must = "required" if name in needed else ""
    default = (
        must
        if inside or schema.get("default") is None
        else f"`{json.dumps(schema['default'], ensure_ascii=False)}`"
    )
    choices = [one for one in alternatives(schema) if "const" in one or "enum" in one]
    return [
        [
            f"`{name}`",
            type_of(schema),
            default or must,
            sentence(schema.get("description")) + chosen(choices),
        ],
        *below,
    ]


def alternatives(schema):
    """Returns a schema and its alternatives."""
    return [schema, *(one for word in ("oneOf", "anyOf", "allOf") for one in schema.get(word, []))]


def chosen(choices):
    """Returns the words that a key may have, with what they mean."""
    words = [
        (word, one) for one in choices for word in one.get("enum", [one.get("const")]) if word is not None
    ]
    told = [
        f"`{word}`"
        + (f": {cell(one['description']).rstrip('.')}" if "const" in one and "description" in one else "")
        for word, one in words
    ]
    return f" One of {'; '.join(told)}." if told else ""


def type_of(schema):
    """Returns the types of a key's values, in TOML's words."""
    names = {"string": "text", "object": "table", "array": "list", "number": "float"}
    types = []
    for one in alternatives(schema):
        found = one.get("type", [])
        types += [found] if isinstance(found, str) else found
    shown = dict.fromkeys(names.get(one, one) for one in types if one != "null")
    return " or ".join(shown) or ("table" if kinds(schema) else "text")
