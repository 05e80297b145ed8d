//! Real programs, which are measured on this machine, each with a command of Unrack.
//!
//! | module | command, and the results that a study uses |
//! |---|---|
//! | [`swap`] | `unrack swap`: errors of predicted run times under the kernel's swap |
//! | [`map`] | `unrack map`: losses over networks and local shares, by class of program |
//! | [`need`] | `unrack map`: the least local memory that each program needs on a network |
//! | [`predict`] | `unrack map` and `unrack compare --access lines`: losses predicted from rates of pages and lines |
//! | [`cost`] | `unrack map` and `unrack swap`: one thread with remote memory against a parallel program |
//! | [`fabrics`] | `unrack compare`: losses with simulated transports |
//! | [`transfers`] | `unrack memory bench` and `unrack swap`: a memory node compared with the kernel's swap |
//! | [`packing`] | native runs and `unrack map`: memory utilisation of servers and of pools that hold the programs |

pub mod cost;
pub mod fabrics;
pub mod map;
pub mod need;
pub mod packing;
pub mod predict;
pub mod swap;
pub mod transfers;

use crate::computed::Computed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write;
use unrack_report::Picture;

/// A program of a study.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyProgram {
    pub name: String,
    /// The program's command and its arguments, relative to the folder of Unrack's sources. Empty for [`Measurement::Node`].
    #[serde(default)]
    pub command: Vec<String>,
    /// Command with arguments that creates the program's inputs.
    #[serde(default)]
    pub prepare: Vec<String>,
    #[serde(default)]
    pub measure: Measurement,
    /// Additional options of the command of Unrack.
    #[serde(default)]
    pub options: Vec<String>,
    /// Another program of the study, if this entry is a further measurement of that program.
    pub of: Option<String>,
    /// Program of the study that computes the same result in parallel.
    pub parallel: Option<String>,
    /// Name of the setting that the options select. It becomes part of the names of values.
    #[serde(default)]
    pub setting: String,
    /// Local memory, as for `--local`; a list for [`Measurement::Map`]. [`Measurement::Node`] and [`Measurement::Native`]
    /// ignore it.
    #[serde(default)]
    pub local: String,
    /// Rounds of runs, as for `--repeat`.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// Time limit, as for `--budget`.
    pub budget: Option<String>,
    /// Whether a quick run includes the program.
    #[serde(default)]
    pub quick: bool,
    /// Program of the paper that this program replaces.
    #[serde(default)]
    pub stands_for: String,
    /// Class of the replaced program in the paper.
    pub class: Option<ProgramClass>,
    /// Reason why the result differs from the paper.
    #[serde(default)]
    pub note: String,
}

/// Command that measures a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measurement {
    /// `unrack swap`
    #[default]
    Swap,
    /// `unrack map`
    Map,
    /// `unrack compare --access lines`
    Lines,
    /// `unrack compare`
    Compare,
    /// `unrack memory bench`, which runs no program
    Node,
    /// Native runs of the program, without a command of Unrack
    Native,
}

/// Class of programs by the network that they need (DDC, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramClass {
    /// A program for which 5 us per page fetch and 40 Gb/s are enough.
    Dolphin,
    /// A program that needs 3 us per page fetch.
    Shark,
}

impl ProgramClass {
    /// Both classes.
    pub const ALL: [ProgramClass; 2] = [ProgramClass::Dolphin, ProgramClass::Shark];

    /// Returns the name of the class's programs.
    pub fn name(self) -> &'static str {
        match self {
            ProgramClass::Dolphin => "dolphins",
            ProgramClass::Shark => "sharks",
        }
    }
}

/// Result of one program: the JSON that the measuring command prints with `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramFound {
    pub program: String,
    pub answer: Value,
}

impl ProgramFound {
    fn number(&self, path: &str) -> Option<f64> {
        self.answer.pointer(path)?.as_f64()
    }
}

/// Returns a sentence with the programs whose answer is withheld, completely or in part; `None` if there are none. The tables
/// have the reasons.
pub fn withheld(found: &[ProgramFound]) -> Option<String> {
    let lacking = found.iter().filter(|found| reason(&found.answer).is_some());
    let names: Vec<&str> = lacking.map(|found| found.program.as_str()).collect();
    (!names.is_empty()).then(|| format!("Without {}, of which the table says why.", names.join(", ")))
}

/// Returns the first reason why an answer or a part of it is withheld; `None` if it is complete.
fn reason(answer: &Value) -> Option<&str> {
    let of = |part: &'_ Value| part.pointer("/withheld/text").is_some();
    let parts = ["locals", "fabrics"].map(|name| answer.get(name).and_then(Value::as_array));
    let mut parts = [answer].into_iter().chain(parts.into_iter().flatten().flatten());
    parts.find(|part| of(part))?.pointer("/withheld/text")?.as_str()
}

/// Returns the values of a study's programs, by name.
pub fn values(programs: &[StudyProgram], found: &[ProgramFound]) -> Computed {
    let mut values = swap::errors(&of(programs, found, Measurement::Swap));
    let mapped = map::mapped(programs, found);
    values.extend(map::values(&mapped));
    values.extend(predict::values(&predict::rated(&mapped, programs, found)));
    values.extend(cost::values(&cost::costs(&mapped, programs, found)));
    values.extend(fabrics::values(&fabrics::compared(programs, found)));
    values.extend(transfers::values(programs, found));
    values.extend(packing::values(&packing::demands(&mapped, programs, found)));
    values
}

/// Returns the tables of a study's programs, as Markdown.
pub fn tables(programs: &[StudyProgram], found: &[ProgramFound]) -> String {
    let swapped = of(programs, found, Measurement::Swap);
    let mut text = if swapped.is_empty() { String::new() } else { swap::table(programs, &swapped) };
    text.push_str(&map::table(programs, found));
    text.push_str(&need::text(&map::mapped(programs, found)));
    text.push_str(&fabrics::table(&fabrics::compared(programs, found)));
    let missing = |found: &&ProgramFound| found.answer.pointer("/withheld/text").is_some();
    for found in found.iter().filter(missing) {
        let _ = write!(
            text,
            "\nNot measured: {} ({}).\n",
            found.program,
            reason(&found.answer).unwrap_or_default()
        );
    }
    text
}

/// Returns the pictures of a study's programs. Their names begin with `name`.
pub fn pictures(name: &str, programs: &[StudyProgram], found: &[ProgramFound]) -> Vec<Picture> {
    let mapped = map::mapped(programs, found);
    let mut pictures = map::pictures(name, &mapped);
    pictures.extend(predict::picture(name, &predict::rated(&mapped, programs, found)));
    pictures.extend(cost::pictures(name, &cost::costs(&mapped, programs, found)));
    pictures
}

/// Returns the entry of a study that measures the program `name` with another command.
fn other<'a>(name: &str, measure: Measurement, programs: &'a [StudyProgram]) -> Option<&'a StudyProgram> {
    programs.iter().find(|program| program.measure == measure && program.of.as_deref() == Some(name))
}

/// Returns the results of all programs that are measured with one command.
fn of(programs: &[StudyProgram], found: &[ProgramFound], measure: Measurement) -> Vec<ProgramFound> {
    let is = |one: &&ProgramFound| {
        programs.iter().any(|program| program.name == one.program && program.measure == measure)
    };
    found.iter().filter(is).cloned().collect()
}

/// Returns the median of sorted values.
fn middle(sorted: &[f64]) -> Option<f64> {
    match sorted.len() {
        0 => None,
        n if n % 2 == 0 => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
        n => Some(sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a program of a study that is measured with `unrack swap`.
    pub(super) fn program(name: &str) -> StudyProgram {
        StudyProgram {
            name: name.into(),
            command: Vec::new(),
            prepare: Vec::new(),
            measure: Measurement::Swap,
            options: Vec::new(),
            of: None,
            parallel: None,
            setting: String::new(),
            local: "25%".into(),
            repeat: Some(2),
            budget: None,
            quick: false,
            stands_for: String::new(),
            class: None,
            note: "Because.".into(),
        }
    }

    #[test]
    fn what_has_no_answer_is_named_with_its_reason() {
        let found = |program: &str, answer| ProgramFound { program: program.into(), answer };
        let why = |text: &str| serde_json::json!({ "key": "budget", "text": text });
        let whole = found(
            "a",
            serde_json::json!({ "native_s": 1.0, "withheld": null, "locals": [{ "withheld": null }] }),
        );
        let part = found(
            "b",
            serde_json::json!({ "locals": [{ "withheld": null }, { "withheld": why("too few runs") }] }),
        );
        let none = found("c", serde_json::json!({ "withheld": why("no java") }));
        assert_eq!(withheld(std::slice::from_ref(&whole)), None);
        assert_eq!(
            withheld(&[whole, part, none.clone()]).unwrap(),
            "Without b, c, of which the table says why."
        );
        assert!(tables(&[], &[none]).contains("Not measured: c (no java)."));
    }

    #[test]
    fn each_program_counts_by_its_own_command() {
        let mapped = StudyProgram { measure: Measurement::Map, ..program("b") };
        let found = |name: &str| ProgramFound { program: name.into(), answer: Value::Null };
        let both = [found("a"), found("b")];
        let names = |measure| of(&[program("a"), mapped.clone()], &both, measure);
        assert_eq!(names(Measurement::Swap), [found("a")]);
        assert_eq!(names(Measurement::Map), [found("b")]);
    }
}
