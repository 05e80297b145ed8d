//! Any text is either a scenario or is refused with a report: it never causes a panic.

use crate::protocols::known;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use unrack_rack::{Overrides, Scenario, ValidScenario};

const GOOD: &[&str] = &[
    include_str!("../../../../../examples/star-edm.toml"),
    include_str!("../../../../../examples/trace-replay.toml"),
    "network = { topology = { kind = \"star\", nodes = 9 }, link.rate = \"40Gbps\", mtu = \"4KiB\" }\n\
     fabric = { protocol = \"dctcp\", list = [1, { a = 2 }], \"odd.key\" = { x = 1.5 } }\n\
     [workload]\nkind = \"flows\"\nsize = { cdf_file = \"a.toml\", unit = \"packets\" }\nload = 1\nmessages = 5\n",
];

/// Words that a scenario may hold, right or wrong, to replace others.
const WORDS: &[&str] = &[
    "[network]",
    "[[network]]",
    "[fabric.x]",
    "kind",
    "\"star\"",
    "nodes",
    "-1",
    "0",
    "1e999",
    "nan",
    "inf",
    "99999999999999999999999",
    "0x7fffffffffffffff",
    "\"64B\"",
    "{",
    "}",
    "[",
    "]",
    "=",
    ",",
    ".",
    "\n",
    "\"",
    "'''",
    "#",
    "\\u0000",
    "\u{7f}",
    "µ",
    "𝄞",
    "\r\n",
    "\t",
    "2026-11-21",
    "true",
    "extends = \"absent\"\n",
    "{ cdf = 1 }",
    "{ pareto = 1.05, mean = \"9kB\" }",
    "{ pareto = 2, minimum = \"64B\", maximum = \"1MB\" }",
    "\"torus\"",
    "\"drack\"",
    "\"torack\"",
    "protocol",
    "\"all-to-all\"",
    "18446744073709551615",
    "\"1e9TB\"",
    "\"999999999TiB\"",
    "load",
];

#[derive(Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
struct Params {
    chunk: Option<unrack_units::Bytes>,
    list: Vec<u8>,
    depth: Option<Box<Params>>,
}

fn look_at(text: &str, sets: &[String]) -> Option<ValidScenario> {
    let overrides: Overrides = sets.iter().cloned().collect();
    let params = |mut scenario: ValidScenario| {
        let text = scenario.explain();
        scenario.fabric_params::<Params>().map(|_| text)
    };
    let checked = Scenario::parse("any.toml", text, &overrides).and_then(|it| it.check(&known()));
    let report = match checked.clone() {
        Ok(scenario) => params(scenario).err(),
        Err(error) => Some(error),
    };
    if let Some(report) = report {
        let report = report.to_string();
        let places = report.matches("--> any.toml:").count() + report.matches("--> --set\n").count();
        let errors = report.lines().filter(|line| line.starts_with("error: ")).count();
        assert!(errors >= 1 && places >= errors, "a problem without a place:\n{report}");
    }
    checked.ok()
}

/// Replaces pieces of a text by words.
fn mutated(text: &str, edits: &[(prop::sample::Index, usize, prop::sample::Index)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, removed, word) in edits {
        let start = at.index(chars.len() + 1);
        let end = (start + removed).min(chars.len());
        chars.splice(start..end, WORDS[word.index(WORDS.len())].chars());
    }
    chars.into_iter().collect()
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, prop::sample::Index)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..6usize, any::<prop::sample::Index>()), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_text(text in "\\PC{0,80}", set in prop::option::of("\\PC{0,40}")) {
        look_at(&text, &Vec::from_iter(set));
    }

    #[test]
    fn any_lines(text in "([a-z.\"=\\[\\]{}0-9#, \n\t]|network|workload|kind){0,60}") {
        look_at(&text, &[]);
    }

    #[test]
    fn any_change_of_a_good_scenario(good in prop::sample::select(GOOD), edits in edits()) {
        look_at(&mutated(good, &edits), &[]);
    }

    #[test]
    fn any_override(key in prop::sample::select(WORDS), value in prop::sample::select(WORDS), edits in edits()) {
        let keys = ["network.link.rate", "workload.size", "workload.size.cdf", "fabric", "seed", key];
        let sets: Vec<_> = keys.iter().map(|key| mutated(&format!("{key}={value}"), &edits)).collect();
        for set in &sets {
            look_at(GOOD[0], std::slice::from_ref(set));
        }
        look_at(GOOD[0], &sets);
    }

    /// An explanation reads back as the same scenario.
    #[test]
    fn explanations_read_back(good in prop::sample::select(GOOD), edits in edits(), odd in "\\PC{0,9}") {
        let sets = [format!("fabric.extra={{{}=\"x\\n\"}}", serde_quoted(&odd))];
        let overrides: Overrides = sets.into_iter().collect();
        let parse = |text: &str, overrides| Scenario::parse("any.toml", text, overrides).and_then(|it| it.check(&known()));
        if let Ok(scenario) = parse(&mutated(good, &edits[..edits.len().min(1)]), &overrides) {
            let explained = scenario.explain();
            let again = parse(&explained, &Overrides::none());
            let again = again.unwrap_or_else(|error| panic!("{explained}\n{error}"));
            prop_assert_eq!(again.hash(), scenario.hash(), "{}", explained);
            prop_assert_eq!((again.seed, again.network, again.workload), (scenario.seed, scenario.network, scenario.workload));
        }
    }
}

/// Returns a quoted key.
fn serde_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("fabric = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(look_at(&deep, &[]).is_none());
    let keys = vec!["a"; 100_000].join(".");
    look_at(&format!("{keys} = 1"), &[]);
    look_at(GOOD[0], &[format!("{keys}=1")]);
    look_at(GOOD[0], &[format!("fabric.{keys}=1")]);
    // As deep as the bounds on keys and brackets together allow.
    let (key, levels) = (vec!["a"; 16].join("."), 79);
    let braces = format!("{}1{}", format!("{{{key}=").repeat(levels), "}".repeat(levels));
    assert!(look_at(&format!("[{key}]\n{key} = {braces}"), &[]).is_none());
}
