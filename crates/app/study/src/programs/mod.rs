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
mod program;
pub mod swap;
pub mod transfers;

pub use program::{Measurement, ProgramClass, ProgramFound, StudyProgram, withheld};

use crate::computed::Computed;
use program::{of, reason};
use std::fmt::Write;
use unrack_report::Picture;

/// Returns the values of a study's programs.
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

#[cfg(test)]
mod tests {
    use super::program::tests::program;
    use super::*;
    use serde_json::Value;

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
