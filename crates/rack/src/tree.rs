//! A scenario as written: values in tables, each with its place, before anything is known of keys.

use std::collections::BTreeMap;

use crate::source::Place;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub value: Value,
    pub place: Place,
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
    /// Of the key.
    pub key: Place,
    pub node: Node,
}

/// Keys that say what their table is. A table that says it is something else starts anew, so that
/// `fabric.protocol = "dctcp"` leaves the parameters of `edm` behind.
const TELLING: [&str; 5] = ["kind", "protocol", "cdf", "cdf_file", "pareto"];

impl Node {
    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.table()?.get(key).map(|entry| &entry.node)
    }

    /// The value at a dotted path, if it is written.
    pub fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, Node::get)
    }

    /// What to point at for a dotted path: the value, or else the nearest table around it.
    pub fn nearest_place(&self, path: &str) -> Place {
        let mut node = self;
        for key in path.split('.') {
            match node.get(key) {
                Some(inner) => node = inner,
                None => break,
            }
        }
        node.place
    }

    /// This table without one of its keys.
    pub fn without(&self, key: &str) -> Node {
        let mut node = self.clone();
        if let Value::Table(table) = &mut node.value {
            table.remove(key);
        }
        node
    }

    /// Takes out the entry at a path of keys; `false` if there is none.
    pub fn remove(&mut self, keys: &[String]) -> bool {
        let Value::Table(table) = &mut self.value else { return false };
        match keys {
            [] => false,
            [last] => table.remove(last).is_some(),
            [first, rest @ ..] => table.get_mut(first).is_some_and(|entry| entry.node.remove(rest)),
        }
    }

    /// In the words of an error message.
    pub fn describe(&self) -> String {
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

/// `over` laid over `base`: tables merge key by key and stay where they were, everything else is
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

/// Whether both say what they are, and say different things.
fn is_another(below: &Table, above: &Table) -> bool {
    let told = |table: &Table| TELLING.map(|key| table.get(key).map(|entry| entry.node.value.clone()));
    let (below, above) = (told(below), told(above));
    let tells = |told: &[Option<Value>]| told.iter().any(Option::is_some);
    tells(&below) && tells(&above) && below != above
}
