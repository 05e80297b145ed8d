//! JSON Schema of scenario files, for editors: the possible keys, their types and their meanings.
//!
//! The schema is generated from the types that read a scenario: see [`schema`](crate::schema). It does not cover ranges
//! or combinations of values, which are checked when a scenario is read. No key is required, because a file may inherit
//! any key from a file that it extends.

use crate::check::{SECTIONS, common_schema};
use crate::fabric::{KnownNames, Protocol};
use crate::faults::{BitErrors, ScheduledFailure};
use crate::host::HostSpec;
use crate::schema::{described, for_type};
use crate::tables::WORKLOADS;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// Returns the JSON Schema of a scenario that may name all protocols and topologies of `known`. `params` returns the
/// schema of the parameters of a protocol.
pub fn scenario_schema(known: &KnownNames, params: impl Fn(Protocol) -> Value) -> Value {
    let protocols = known.protocols.iter().map(|protocol| Kind {
        name: protocol.name(),
        about: protocol.profile().about,
        schema: params(*protocol),
    });
    let topologies = known.all_topologies();
    let topologies =
        topologies.iter().map(|kind| Kind { name: kind.name, about: kind.about, schema: (kind.schema)() });
    let workloads = WORKLOADS.iter().map(|(name, schema)| Kind { name, about: "", schema: schema() });
    let mut network = common_schema();
    network["properties"]["topology"] =
        described("How nodes and switches are connected.", one_of("kind", topologies.collect()));
    let sections = SECTIONS.map(|(name, about)| {
        let schema = match name {
            "seed" => for_type::<u64>(),
            "network" => network.clone(),
            "fabric" => one_of("protocol", protocols.clone().collect()),
            "host" => for_type::<HostSpec>(),
            "workload" => one_of("kind", workloads.clone().collect()),
            "failures" => for_type::<Vec<ScheduledFailure>>(),
            "bit_errors" => for_type::<BitErrors>(),
            _ => for_type::<String>(),
        };
        (name.to_string(), described(about, schema))
    });
    let mut schema = json!({ "type": "object", "properties": Map::from_iter(sections) });
    close(&mut schema);
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Unrack scenario".into();
    schema
}

/// Returns the schema of the parameters of a protocol, in the form that [`scenario_schema`] expects.
pub fn params_schema<P: JsonSchema>() -> Value {
    for_type::<P>()
}

/// One of the tables among which a key chooses.
#[derive(Clone)]
struct Kind {
    name: &'static str,
    about: &'static str,
    schema: Value,
}

/// Returns the schema of a table whose keys depend on the value of the key `chooser`. A file may inherit that value
/// from a file that it extends; such a file may have the keys of any choice.
fn one_of(chooser: &str, kinds: Vec<Kind>) -> Value {
    let mut any = Map::new();
    let mut choices = Vec::new();
    for Kind { name, about, mut schema } in kinds {
        let keys = schema["properties"].as_object().cloned().unwrap_or_default();
        for (key, schema) in keys {
            // If two choices give a key different types, an editor can only know the name of the key.
            any.entry(key)
                .and_modify(|known| {
                    if *known != schema {
                        *known = json!({})
                    }
                })
                .or_insert(schema);
        }
        let mut choice = json!({ "const": name });
        if !about.is_empty() {
            choice["description"] = about.into();
        }
        schema["properties"][chooser] = choice;
        schema["required"] = json!([chooser]);
        schema["title"] = name.into();
        choices.push(schema);
    }
    choices.push(json!({ "type": "object", "title": "extended", "properties": any }));
    json!({ "oneOf": choices })
}

/// Rejects unknown keys in all tables, requires only the keys that choose, and removes the marks that only hashes need.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            let is_choice = entries.get("properties").and_then(Value::as_object).is_some_and(|properties| {
                properties.values().any(|property| property.get("const").is_some())
            });
            if entries.get("properties").is_some_and(Value::is_object) && entries.contains_key("type") {
                entries.insert("additionalProperties".into(), false.into());
                if !is_choice {
                    entries.remove("required");
                }
            }
            entries.retain(|key, _| !key.starts_with("x-"));
            entries.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}
