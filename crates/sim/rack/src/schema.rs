//! Keys that each table of a scenario accepts, as JSON Schema. The schema is generated from the types that read the
//! tables, so that every key that can be read is known here.
//!
//! In addition to JSON Schema, a key may have the entry `"x-unhashed"`: see [`hashed`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use toml::{Table, Value as Toml};

/// Returns the schema of a type, with all references inlined.
pub(crate) fn for_type<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Returns the schema of a table with these keys.
pub(crate) fn table<const N: usize>(keys: [(&str, Value); N]) -> Value {
    json!({ "type": "object", "properties": Map::from_iter(keys.map(|(key, schema)| (key.into(), schema))) })
}

/// Returns the schema with this description added.
pub(crate) fn described(meaning: &str, mut schema: Value) -> Value {
    schema["description"] = meaning.into();
    schema
}

/// Schema of one key.
pub(crate) struct Key<'a>(pub &'a Value);

/// Table inside a value.
pub(crate) enum InnerTable<'a> {
    /// The value itself is the table.
    Table(&'a Value),
    /// The value is a list, and each element is a table.
    Each(&'a Value),
}

/// Returns the keys of a table.
pub(crate) fn keys(table: &Value) -> BTreeMap<&str, Key<'_>> {
    let properties = table.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(key, schema)| (key.as_str(), Key(schema))).collect()
}

/// Returns whether a table requires this key.
pub(crate) fn needs(table: &Value, key: &str) -> bool {
    table.get("required").and_then(Value::as_array).is_some_and(|keys| keys.contains(&key.into()))
}

impl<'a> Key<'a> {
    /// Returns the description of the key on one line, without the link marks of documentation.
    pub(crate) fn meaning(&self) -> String {
        let text = self.0.get("description").and_then(Value::as_str).unwrap_or_default();
        let plain = text.replace("[`", "`").replace("`]", "`");
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the default in the form that a scenario uses; `None` if the key has no default.
    pub(crate) fn default(&self) -> Option<Toml> {
        let default = self.0.get("default").filter(|default| !default.is_null())?;
        Toml::try_from(default).ok()
    }

    /// Returns the table that the value of the key may be, or that the elements of its list may be.
    pub(crate) fn inside(&self) -> Option<InnerTable<'a>> {
        let list = || alternatives(self.0).find_map(|schema| schema.get("items"));
        match table_in(self.0) {
            Some(table) => Some(InnerTable::Table(table)),
            None => list().and_then(table_in).map(InnerTable::Each),
        }
    }
}

fn table_in(schema: &Value) -> Option<&Value> {
    alternatives(schema).find(|schema| schema.get("properties").is_some())
}

/// Returns the schema itself, followed by its alternatives.
fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let of = |word: &str| schema.get(word).and_then(Value::as_array).into_iter().flatten();
    std::iter::once(schema).chain(["anyOf", "oneOf", "allOf"].into_iter().flat_map(of))
}

/// Returns the entries of a table that count towards the hash of a scenario. Keys that were added after the first
/// version are marked `"x-unhashed": "default"`, and are left out if they have their default value. Keys marked
/// `"x-unhashed": true` have no effect in this scenario, and are always left out. Therefore the hash of a scenario
/// stays the same across versions.
pub(crate) fn hashed(table: &Table, schema: &Value) -> Table {
    let empty = Value::Null;
    let properties = schema.get("properties").and_then(Value::as_object);
    let of = |key: &str| properties.and_then(|all: &Map<String, Value>| all.get(key)).unwrap_or(&empty);
    let counts = |(key, value): &(&String, &Toml)| match of(key).get("x-unhashed") {
        Some(Value::Bool(true)) => false,
        Some(_) => Key(of(key)).default().as_ref() != Some(*value),
        None => true,
    };
    let counted = table.iter().filter(counts);
    counted.map(|(key, value)| (key.clone(), hashed_value(value, of(key)))).collect()
}

fn hashed_value(value: &Toml, schema: &Value) -> Toml {
    match (value, Key(schema).inside()) {
        (Toml::Table(table), Some(InnerTable::Table(schema))) => Toml::Table(hashed(table, schema)),
        (Toml::Array(tables), Some(InnerTable::Each(schema))) => {
            let each = |value: &Toml| value.as_table().map_or(value.clone(), |it| hashed(it, schema).into());
            Toml::Array(tables.iter().map(each).collect())
        }
        _ => value.clone(),
    }
}

/// Implements the schema of a type that a scenario writes as text or as a number.
macro_rules! schema_as_text {
    ($type:ty) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "number"] })
            }
        }
    };
}
pub(crate) use schema_as_text;

/// Implements the schema of a type that a scenario writes as a word, or as a table if the word needs a number.
macro_rules! schema_as_word_or_table {
    ($type:ty, $table:ty) => {
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let table = generator.subschema_for::<$table>();
                schemars::json_schema!({ "anyOf": [{ "type": "string" }, table] })
            }
        }
    };
}
pub(crate) use schema_as_word_or_table;
