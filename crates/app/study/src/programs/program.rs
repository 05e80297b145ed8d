//! One program of a study, and the answer of the command that measured it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A program of a study.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyProgram {
    pub name: String,
    /// Words of the command, from the folder of Unrack's sources; none of [`Measurement::Node`].
    #[serde(default)]
    pub command: Vec<String>,
    /// Words of a command that makes its inputs.
    #[serde(default)]
    pub prepare: Vec<String>,
    #[serde(default)]
    pub measure: Measurement,
    /// More options of that command.
    #[serde(default)]
    pub options: Vec<String>,
    /// Program of the study whose other measurement this is.
    pub of: Option<String>,
    /// Program of the study that answers the same in parallel.
    pub parallel: Option<String>,
    /// Setting of its options, by which values are named.
    #[serde(default)]
    pub setting: String,
    /// Local memory, as for `--local`; of [`Measurement::Map`], a list. Without a meaning for [`Measurement::Node`] and
    /// [`Measurement::Native`].
    #[serde(default)]
    pub local: String,
    /// Rounds of runs, as for `--repeat`.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// Time limit, as for `--budget`.
    pub budget: Option<String>,
    /// True if a quick run has it.
    #[serde(default)]
    pub quick: bool,
    /// Program of the paper whose place it takes.
    #[serde(default)]
    pub stands_for: String,
    /// Class of that program in the paper.
    pub class: Option<ProgramClass>,
    /// Reason why the result differs.
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
    /// Native runs, which no command of Unrack's makes
    Native,
}

/// Class of programs by the network that they need (DDC, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramClass {
    /// A program that 5 us and 40 Gb/s suffice.
    Dolphin,
    /// A program that needs 3 us.
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

/// Result for one program: the JSON object that its command prints with `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramFound {
    pub program: String,
    pub answer: Value,
}

impl ProgramFound {
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        self.answer.pointer(path)?.as_f64()
    }
}

/// Returns which programs have no answer, or not all of it; `None` if all have. Their reasons are in the tables.
pub fn withheld(found: &[ProgramFound]) -> Option<String> {
    let lacking = found.iter().filter(|found| reason(&found.answer).is_some());
    let names: Vec<&str> = lacking.map(|found| found.program.as_str()).collect();
    (!names.is_empty()).then(|| format!("Without {}, of which the table says why.", names.join(", ")))
}

/// Returns the first reason why an answer, or a part of it, is withheld.
pub(super) fn reason(answer: &Value) -> Option<&str> {
    let of = |part: &'_ Value| part.pointer("/withheld/text").is_some();
    let parts = ["locals", "fabrics"].map(|name| answer.get(name).and_then(Value::as_array));
    let mut parts = [answer].into_iter().chain(parts.into_iter().flatten().flatten());
    parts.find(|part| of(part))?.pointer("/withheld/text")?.as_str()
}

/// Returns the other measurement of a program by a command.
pub(super) fn other<'a>(
    name: &str,
    measure: Measurement,
    programs: &'a [StudyProgram],
) -> Option<&'a StudyProgram> {
    programs.iter().find(|program| program.measure == measure && program.of.as_deref() == Some(name))
}

/// Returns the results of the programs that are measured by one command.
pub(super) fn of(
    programs: &[StudyProgram],
    found: &[ProgramFound],
    measure: Measurement,
) -> Vec<ProgramFound> {
    let is = |one: &&ProgramFound| {
        programs.iter().any(|program| program.name == one.program && program.measure == measure)
    };
    found.iter().filter(is).cloned().collect()
}

/// Returns the median of sorted values.
pub(super) fn middle(sorted: &[f64]) -> Option<f64> {
    match sorted.len() {
        0 => None,
        n if n % 2 == 0 => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
        n => Some(sorted[n / 2]),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Program of a study for `unrack swap`.
    pub(in crate::programs) fn program(name: &str) -> StudyProgram {
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
}
