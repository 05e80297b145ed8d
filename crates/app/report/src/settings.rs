//! Settings of runs, and the settings in which several runs differ.

use std::collections::{BTreeMap, BTreeSet};

use unrack_record::Manifest;

/// Values of one run's complete scenario as text, by dotted key.
pub(crate) type ScenarioSettings = BTreeMap<String, String>;

/// A setting that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Differing {
    /// Key of the scenario, such as `workload.load`.
    pub key: String,
    /// Values, one per run; `None` (null) where the key is absent.
    pub values: Vec<Option<String>>,
}

/// Keys whose value determines which other keys their table has. Therefore, if such a value changes, the whole table counts as one
/// difference.
const CHOICES: [&str; 2] = ["kind", "protocol"];

/// Returns the settings of a run with this manifest. `None` if the manifest has no readable scenario.
pub(crate) fn settings(manifest: Option<&Manifest>) -> Option<ScenarioSettings> {
    let table: toml::Table = manifest?.scenario.as_ref()?.parse().ok()?;
    let mut settings = ScenarioSettings::new();
    flatten("", &toml::Value::Table(table), &mut settings);
    Some(settings)
}

fn flatten(path: &str, value: &toml::Value, settings: &mut ScenarioSettings) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, inner, settings);
            }
        }
        toml::Value::String(text) => drop(settings.insert(path.into(), text.clone())),
        other => drop(settings.insert(path.into(), other.to_string())),
    }
}

/// Returns all settings in which these runs differ, by key.
pub(crate) fn differing(runs: &[&ScenarioSettings]) -> Vec<Differing> {
    let keys: BTreeSet<&String> = runs.iter().flat_map(|settings| settings.keys()).collect();
    let one = |key: &String| {
        let values: Vec<Option<String>> = runs.iter().map(|settings| settings.get(key).cloned()).collect();
        let is_same = values.windows(2).all(|pair| pair[0] == pair[1]);
        (!is_same).then(|| Differing { key: key.clone(), values })
    };
    keys.into_iter().filter_map(one).collect()
}

/// Groups the settings that differ into independent differences. A difference may include several keys: for example, a different
/// `fabric.protocol` is one difference, `fabric`, with all its parameters. The same applies to a value that is given in a different form.
pub(crate) fn things(differing: &[Differing]) -> Vec<String> {
    let keys: BTreeSet<&str> = differing.iter().map(|one| one.key.as_str()).collect();
    let mut things: Vec<String> = Vec::new();
    for key in &keys {
        let tables = || key.match_indices('.').map(|(end, _)| &key[..end]);
        let is_chosen =
            |table: &&str| CHOICES.iter().any(|choice| keys.contains(format!("{table}.{choice}").as_str()));
        let thing = tables().find(|table| is_chosen(table) || keys.contains(table)).unwrap_or(key);
        if !things.iter().any(|known| known == thing) {
            things.push(thing.into());
        }
    }
    things
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ScenarioSettings {
        let mut settings = ScenarioSettings::new();
        flatten("", &toml::Value::Table(text.parse().unwrap()), &mut settings);
        settings
    }

    fn differ(texts: &[&str]) -> (Vec<Differing>, Vec<String>) {
        let runs: Vec<ScenarioSettings> = texts.iter().map(|text| parsed(text)).collect();
        let differing = differing(&runs.iter().collect::<Vec<_>>());
        let things = things(&differing);
        (differing, things)
    }

    const EDM: &str =
        "seed = 1\nfabric = { protocol = \"edm\", chunk = \"256B\" }\nworkload = { load = \"50%\" }";

    #[test]
    fn values_differ_by_key_and_order_does_not_matter() {
        let other = "workload.load = \"40%\"\nfabric.chunk = \"256B\"\nfabric.protocol = \"edm\"\nseed = 1";
        let (differing, things) = differ(&[EDM, other]);
        let values = vec![Some("50%".to_string()), Some("40%".to_string())];
        assert_eq!(differing, [Differing { key: "workload.load".into(), values }]);
        assert_eq!(things, ["workload.load"]);
        assert!(differ(&[EDM, EDM, EDM]).0.is_empty());
        assert_eq!(differ(&[EDM, EDM, other]).1, ["workload.load"]);
    }

    #[test]
    fn another_protocol_is_one_thing_with_all_its_parameters() {
        let dctcp = EDM.replace("edm\", chunk = \"256B\"", "dctcp\", gain = 0.1");
        let (differing, things) = differ(&[EDM, &dctcp]);
        let keys: Vec<_> = differing.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["fabric.chunk", "fabric.gain", "fabric.protocol"]);
        assert_eq!(differing[1].values, [None, Some("0.1".into())]);
        assert_eq!(things, ["fabric"]);
        let both = dctcp.replace("seed = 1", "seed = 2");
        assert_eq!(differ(&[EDM, &both]).1, ["fabric", "seed"]);
    }

    #[test]
    fn two_parameters_of_one_protocol_are_two_things() {
        let other = EDM.replace("chunk = \"256B\"", "chunk = \"64B\", cycle = \"3ns\"");
        assert_eq!(differ(&[EDM, &other]).1, ["fabric.chunk", "fabric.cycle"]);
    }

    #[test]
    fn another_form_of_one_value_is_one_thing() {
        let plain = "workload = { kind = \"flows\", size = \"64B\" }";
        let drawn = "workload = { kind = \"flows\", size = { cdf = \"websearch\", scale = 2 } }";
        assert_eq!(differ(&[plain, drawn]).1, ["workload.size"]);
        let memory = "workload = { kind = \"memory\", size = \"64B\", read_fraction = 1 }";
        assert_eq!(differ(&[plain, memory]).1, ["workload"]);
        assert_eq!(differ(&[drawn, memory]).1, ["workload"]);
    }
}
