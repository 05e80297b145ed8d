//! `unrack completions`: scripts with which a shell completes command lines of `unrack`. This module also computes the candidates for
//! option values.
//!
//! A script runs the command itself (`COMPLETE=SHELL unrack -- ...`). Therefore fabrics, studies and keys of scenarios are those of this
//! build, including registered ones.

use crate::failure::CommandFailure;
use crate::stdout::print;
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;
use serde_json::Value;
use std::ffi::OsStr;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  source <(unrack completions bash)                                      in ~/.bashrc
  unrack completions fish > ~/.config/fish/completions/unrack.fish
  unrack completions zsh > _unrack                                       in a folder of $fpath

Verbs and flags are completed, and so are fabrics, studies, and keys and values of --set.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs `unrack completions`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let (name, mut script) = (args.shell.to_string(), Vec::new());
    let shells = Shells::builtins();
    let shell = shells.completer(&name).expect("the same shells are known twice");
    let written = shell.write_registration("COMPLETE", "unrack", "unrack", "unrack", &mut script);
    written.map_err(|why| CommandFailure::Failed(why.to_string()))?;
    if args.shell == Shell::Bash {
        script.extend_from_slice(WHOLE_SETTINGS.as_bytes());
    }
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Line that makes bash pass `KEY=VALUE` as one word.
const WHOLE_SETTINGS: &str = "# KEY=VALUE is one word.\nCOMP_WORDBREAKS=${COMP_WORDBREAKS//=/}\n";

/// Returns the fabrics as candidates.
pub(crate) fn fabrics(typed: &OsStr) -> Vec<CompletionCandidate> {
    let known = unrack_sim::known().protocols;
    let candidate = |protocol: &unrack_rack::Protocol| {
        CompletionCandidate::new(protocol.name()).help(Some(protocol.profile().about.into()))
    };
    starting(&typed.to_string_lossy(), known.iter().map(candidate))
}

/// Returns the studies as candidates.
pub(crate) fn studies(typed: &OsStr) -> Vec<CompletionCandidate> {
    let studies = unrack_study::all().unwrap_or_default();
    let candidate = |study: &unrack_study::Study| {
        CompletionCandidate::new(&study.name).help(Some(study.title.clone().into()))
    };
    starting(&typed.to_string_lossy(), studies.iter().map(candidate).chain([CompletionCandidate::new("all")]))
}

/// Returns the keys of scenarios, each followed by `=`. If the typed text already has a key and `=`, returns the values of that key.
pub(crate) fn settings(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let mut keys = Vec::new();
    collect("", &unrack_sim::schema(), &mut keys);
    keys.sort_by(|a, b| a.path.cmp(&b.path));
    let candidates: Vec<CompletionCandidate> = match typed.split_once('=') {
        None => keys
            .iter()
            .map(|key| CompletionCandidate::new(format!("{}=", key.path)).help(key.help.clone()))
            .collect(),
        Some((path, _)) => keys
            .iter()
            .filter(|key| key.path == path)
            .flat_map(|key| &key.values)
            .map(|value| CompletionCandidate::new(format!("{path}={value}")))
            .collect(),
    };
    let mut found = starting(&typed, candidates.into_iter());
    found.dedup_by(|a, b| a.get_value() == b.get_value());
    found
}

fn starting(typed: &str, candidates: impl Iterator<Item = CompletionCandidate>) -> Vec<CompletionCandidate> {
    candidates.filter(|one| one.get_value().to_string_lossy().starts_with(typed)).collect()
}

/// Key of scenarios that has a value.
struct Key {
    path: String,
    help: Option<clap::builder::StyledStr>,
    values: Vec<String>,
}

/// Adds the keys below `path` that a JSON Schema defines.
fn collect(path: &str, schema: &Value, keys: &mut Vec<Key>) {
    let list = |name: &str| schema[name].as_array().into_iter().flatten();
    list("oneOf").chain(list("anyOf")).for_each(|choice| collect(path, choice, keys));
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, inner) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_table = inner["properties"].is_object() || inner["oneOf"].is_array();
        let values = values(inner);
        if !is_table || !values.is_empty() {
            let about =
                inner["description"].as_str().map(|text| text.lines().next().unwrap_or("").to_string());
            keys.push(Key { path: path.clone(), help: about.map(Into::into), values });
        }
        collect(&path, inner, keys);
    }
}

/// Returns the values that a schema lists.
fn values(schema: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let list = |name: &str| schema[name].as_array().into_iter().flatten();
    let mut found: Vec<String> = list("enum").chain(schema.get("const")).map(text).collect();
    if schema["type"] == "boolean" {
        found.extend(["true".into(), "false".into()]);
    }
    found.extend(schema.get("default").filter(|value| !value.is_null() && !value.is_object()).map(text));
    for choice in list("oneOf").chain(list("anyOf")) {
        found.extend(values(choice));
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(candidates: Vec<CompletionCandidate>) -> Vec<String> {
        candidates.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn fabrics_are_those_that_are_known() {
        assert_eq!(shown(fabrics(OsStr::new("ed"))), ["edm"]);
        assert_eq!(shown(fabrics(OsStr::new(""))).len(), unrack_sim::known().protocols.len());
        assert_eq!(shown(fabrics(OsStr::new("none"))), Vec::<String>::new());
    }

    #[test]
    fn keys_and_their_values_come_from_what_reads_scenarios() {
        assert_eq!(shown(settings(OsStr::new("fabric.prot"))), ["fabric.protocol="]);
        let protocols = shown(settings(OsStr::new("fabric.protocol=")));
        for protocol in unrack_sim::known().protocols.iter() {
            assert!(protocols.contains(&format!("fabric.protocol={}", protocol.name())), "{protocol:?}");
        }
        assert!(
            shown(settings(OsStr::new("network.topology.kind=le"))) == ["network.topology.kind=leaf-spine"]
        );
        let all = shown(settings(OsStr::new("")));
        assert!(all.iter().any(|key| key == "workload.load=") && all.iter().all(|key| key.ends_with('=')));
    }

    #[test]
    fn studies_are_those_that_can_be_run() {
        assert!(shown(studies(OsStr::new("edm/"))).contains(&"edm/table1".to_string()));
        assert_eq!(shown(studies(OsStr::new("al"))), ["all"]);
    }
}
