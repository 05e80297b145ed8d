//! Tree of a scenario as written: values in tables, each with its place. Keys are not interpreted yet.

use std::collections::BTreeMap;

use crate::source::SourceRange;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub value: Value,
    pub place: SourceRange,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

pub(crate) type Table = BTreeMap<String, Entry>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Place of the key.
    pub key: SourceRange,
    pub node: Node,
}

/// Keys that select the kind of their table. If an upper table selects another kind, it replaces the lower table
/// instead of being merged with it. For example, `fabric.protocol = "dctcp"` drops the parameters of `edm`.
const TELLING: [&str; 5] = ["kind", "protocol", "cdf", "cdf_file", "pareto"];

impl Node {
    /// Returns the table, if the node holds one.
    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the value of a key in this table.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.table()?.get(key).map(|entry| &entry.node)
    }

    /// Returns the value at a dotted path, if the scenario has one.
    pub(crate) fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, Node::get)
    }

    /// Returns the place of the value at a dotted path. If that value is missing, it returns the place of the nearest
    /// table or list around it. Elements of a list have their number, counted from 0, as key. Returns `None` if even
    /// the first key of the path is missing, because then no line of the scenario is the cause.
    pub(crate) fn nearest_place(&self, path: &str) -> Option<SourceRange> {
        let mut node = self;
        for (level, key) in path.split('.').enumerate() {
            let inner = match &node.value {
                Value::List(nodes) => key.parse().ok().and_then(|number: usize| nodes.get(number)),
                _ => node.get(key),
            };
            match inner {
                Some(inner) => node = inner,
                None if level == 0 => return None,
                None => break,
            }
        }
        Some(node.place)
    }

    /// Returns a copy of this table without one of its keys.
    pub(crate) fn without(&self, key: &str) -> Node {
        let mut node = self.clone();
        if let Value::Table(table) = &mut node.value {
            table.remove(key);
        }
        node
    }

    /// Removes the entry at a path of keys. Returns whether there was one.
    pub(crate) fn remove(&mut self, keys: &[String]) -> bool {
        let Value::Table(table) = &mut self.value else { return false };
        match keys {
            [] => false,
            [last] => table.remove(last).is_some(),
            [first, rest @ ..] => table.get_mut(first).is_some_and(|entry| entry.node.remove(rest)),
        }
    }

    /// Describes the value as error messages do.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("`{}`", text.escape_debug()),
            Value::Integer(number) => format!("`{number}`"),
            Value::Float(number) => format!("`{number}`"),
            Value::Boolean(truth) => format!("`{truth}`"),
            Value::Date(date) => format!("the date `{date}`"),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a table".into(),
        }
    }
}

/// Returns `over` laid over `base`. Tables are merged key by key and keep the place of `base`; other values are
/// replaced.
pub(crate) fn overlay(base: Node, over: Node) -> Node {
    match (base.value, over.value) {
        (Value::Table(below), Value::Table(above)) if !is_another(&below, &above) => {
            Node { value: Value::Table(merge(below, above)), place: base.place }
        }
        (_, value) => Node { value, place: over.place },
    }
}

fn merge(mut below: Table, above: Table) -> Table {
    for (name, over) in above {
        let merged = match below.remove(&name) {
            Some(base) => Entry { key: over.key, node: overlay(base.node, over.node) },
            None => over,
        };
        below.insert(name, merged);
    }
    below
}

/// Returns whether both tables select their kind and the two kinds differ.
fn is_another(below: &Table, above: &Table) -> bool {
    let told = |table: &Table| TELLING.map(|key| table.get(key).map(|entry| entry.node.value.clone()));
    let (below, above) = (told(below), told(above));
    let tells = |told: &[Option<Value>]| told.iter().any(Option::is_some);
    tells(&below) && tells(&above) && below != above
}
