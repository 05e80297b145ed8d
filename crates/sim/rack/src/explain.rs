//! Explains a scenario in full, as TOML: each value with its origin, and each key that has no value.

use serde_json::Value as Schema;
use toml::{Table, Value as Toml};
use unrack_basis::fnv_1a;

use crate::schema::{self, InnerTable, Key};
use crate::source::Source;
use crate::tables::TopTable;
use crate::tree::Node;

/// Keys that select the kind of their table. They are printed first.
const FIRST: [&str; 2] = ["kind", "protocol"];

/// Longest line, in characters, that is aligned to the common column of comments.
const WIDEST: usize = 60;

/// Returns the text of a scenario with a comment after each value. Keys and tables without a value are written as
/// comments, so that the text reads back as the same scenario.
pub(crate) fn with_origins(parts: &[TopTable], root: &Node, sources: &[Source]) -> String {
    let mut page = Page { text: String::new(), root, sources };
    for part @ TopTable { values, schema, .. } in parts {
        match values {
            Some(values) => page.table(&part.path(), values, schema),
            None => {
                page.template(&part.path(), &InnerTable::Table(schema), &reason(NOT_SET, &Key(schema)), None)
            }
        }
    }
    page.text
}

/// Returns the hash of the text without its comments: FNV-1a with 64 bits.
pub(crate) fn hash(parts: &[TopTable]) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| part.hashed) {
        if let Some(values) = &part.values {
            plain(&mut text, &part.path(), &schema::hashed(values, &part.schema));
        }
    }
    format!("{:016x}", fnv_1a(text.as_bytes()))
}

/// Appends the values of a table, followed by the tables inside it.
fn plain(text: &mut String, path: &[String], table: &Table) {
    let (tables, values): (Vec<_>, Vec<_>) =
        sorted(table).into_iter().partition(|(_, value)| value.is_table());
    if !values.is_empty() {
        *text += &header(path);
    }
    values.iter().for_each(|(key, value)| *text += &format!("{} = {value}\n", quoted(key)));
    for (key, value) in tables {
        plain(text, &[path, std::slice::from_ref(key)].concat(), value.as_table().expect("they were parted"));
    }
}

struct Page<'a> {
    text: String,
    root: &'a Node,
    sources: &'a [Source],
}

/// One key of a table, on a separate line.
struct Line {
    text: String,
    comment: String,
}

impl Page<'_> {
    /// Appends a table of the scenario: its values and its keys without a value, followed by the tables inside it.
    fn table(&mut self, path: &[String], values: &Table, schema: &Schema) {
        let keys = schema::keys(schema);
        let mut names: Vec<&str> = values.keys().map(String::as_str).chain(keys.keys().copied()).collect();
        names.sort_by_key(|name| (!FIRST.contains(name), *name));
        names.dedup();
        let line = |name: &&str| self.line(path, name, values.get(*name), keys.get(name));
        let lines: Vec<Line> = names.iter().filter_map(line).collect();
        if !lines.is_empty() {
            self.text += &header(path);
        }
        self.lines(&lines);
        for name in names {
            self.inside(&below(path, name), values.get(name), keys.get(name));
        }
    }

    /// Returns the line of one key; `None` if the key holds a table.
    fn line(&self, path: &[String], name: &str, value: Option<&Toml>, key: Option<&Key>) -> Option<Line> {
        match (value, key) {
            (Some(Toml::Table(_)), _) => None,
            (Some(value), _) => {
                Some(Line { text: format!("{} = {value}", quoted(name)), comment: self.origin(path, name) })
            }
            (None, Some(key)) if key.inside().is_none() => Some(without_value(name, key, NOT_SET)),
            (None, _) => None,
        }
    }

    /// Appends the table that a key holds or could hold.
    fn inside(&mut self, path: &[String], value: Option<&Toml>, key: Option<&Key>) {
        match (value, key, key.and_then(Key::inside)) {
            (Some(Toml::Table(table)), _, Some(InnerTable::Table(schema))) => self.table(path, table, schema),
            (Some(Toml::Table(table)), ..) => self.table(path, table, &Schema::Null),
            (value, Some(key), Some(inside)) => {
                let why = match (value, &inside) {
                    (None, _) => NOT_SET,
                    (_, InnerTable::Table(_)) => "could be a table",
                    (_, InnerTable::Each(_)) => "keys of each",
                };
                self.template(path, &inside, &reason(why, key), key.default().as_ref());
            }
            _ => {}
        }
    }

    /// Appends, as a comment, a table that the scenario lacks: its possible keys and their defaults.
    fn template(&mut self, path: &[String], inside: &InnerTable, why: &str, default: Option<&Toml>) {
        let (schema, header) = match inside {
            InnerTable::Table(schema) => (*schema, format!("[{}]", dotted(path))),
            InnerTable::Each(schema) => (*schema, format!("[[{}]]", dotted(path))),
        };
        self.text += &format!("\n# {header}  # {why}\n");
        let keys = schema::keys(schema);
        let mut names: Vec<&str> = keys.keys().copied().collect();
        names.sort_by_key(|name| (!FIRST.contains(name), *name));
        let value = |name: &str| default.and_then(|table| table.get(name)).cloned().or(keys[name].default());
        let line = |name: &&str| template_line(name, &keys[name], value(name), schema::needs(schema, name));
        self.lines(&names.iter().filter_map(line).collect::<Vec<_>>());
        for name in names {
            self.inside(&below(path, name), None, keys.get(name));
        }
    }

    fn lines(&mut self, lines: &[Line]) {
        let widths = lines.iter().map(|line| line.text.chars().count());
        let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or(0);
        for Line { text, comment } in lines {
            self.text += &format!("{text:width$}  # {comment}\n");
        }
    }

    /// Returns the origin of a value.
    fn origin(&self, path: &[String], key: &str) -> String {
        let table = path.iter().try_fold(self.root, |node, key| node.get(key));
        match table.and_then(|table| table.get(key)) {
            Some(node) => self.sources[node.place.source].describe(node.place).replace(char::is_control, " "),
            None => "default".into(),
        }
    }
}

const NOT_SET: &str = "not set";

/// Returns the line of a key in a table that the scenario lacks; `None` if the key holds a table.
fn template_line(name: &str, key: &Key, default: Option<Toml>, is_needed: bool) -> Option<Line> {
    match (default, key.inside()) {
        (Some(value), _) if !value.is_table() => {
            Some(Line { text: format!("# {} = {value}", quoted(name)), comment: "default".into() })
        }
        (_, Some(_)) => None,
        _ => Some(without_value(name, key, if is_needed { "needed" } else { NOT_SET })),
    }
}

fn without_value(name: &str, key: &Key, why: &str) -> Line {
    Line { text: format!("# {} =", quoted(name)), comment: reason(why, key) }
}

/// Returns the reason why a value is missing, followed by the meaning of the key.
fn reason(why: &str, key: &Key) -> String {
    match key.meaning() {
        meaning if meaning.is_empty() => why.into(),
        meaning => format!("{why}: {meaning}"),
    }
}

fn below(path: &[String], name: &str) -> Vec<String> {
    [path, &[name.to_string()]].concat()
}

/// Returns the entries of a table in a fixed order: first the keys that select its kind, then the others by name.
fn sorted(table: &Table) -> Vec<(&String, &Toml)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| (!FIRST.contains(&key.as_str()), *key));
    entries
}

fn header(path: &[String]) -> String {
    if path.is_empty() { String::new() } else { format!("\n[{}]\n", dotted(path)) }
}

fn dotted(path: &[String]) -> String {
    path.iter().map(|key| quoted(key)).collect::<Vec<_>>().join(".")
}

/// Returns a key, in quotes if TOML requires them.
fn quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", c as u32),
        c => c.into(),
    };
    match !key.is_empty() && key.chars().all(bare) {
        true => key.into(),
        false => format!("\"{}\"", key.chars().map(escaped).collect::<String>()),
    }
}
