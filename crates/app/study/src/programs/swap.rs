//! Predicted and measured run times of programs under the kernel's swap (`unrack swap`).

use super::program::{ProgramFound, StudyProgram, middle};
use crate::computed::Computed;
use serde_json::Value;
use std::fmt::Write;

/// Returns the number of programs with an answer, and the median and the largest error of the predictions in percent: as measured,
/// and corrected to the case that the kernel swaps in as many pages as Unrack's pager fetched.
pub fn errors(found: &[ProgramFound]) -> Computed {
    let answered = || found.iter().filter(|one| one.number("/error").is_some());
    let sorted = |path: &str| {
        let mut errors: Vec<f64> =
            answered().filter_map(|one| Some(one.number(path)?.abs() * 100.0)).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let (errors, at_equal) = (sorted("/error"), sorted("/error_at_equal_faults"));
    let values = [
        ("programs", Some(errors.len() as f64).filter(|n| *n > 0.0)),
        ("median-error", middle(&errors)),
        ("largest-error", errors.last().copied()),
        ("median-error-at-equal-faults", middle(&at_equal)),
        ("largest-error-at-equal-faults", at_equal.last().copied()),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}

/// Returns the table of all programs, as Markdown.
pub fn table(programs: &[StudyProgram], found: &[ProgramFound]) -> String {
    let mut text = String::from(
        "\n| program | local | native | predicted | measured | error | at equal faults | swapped in / fetched | a fault | |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in found {
        let Some(program) = programs.iter().find(|program| program.name == one.program) else { continue };
        let cell = |path: &str, show: fn(f64) -> String| one.number(path).map_or("–".into(), show);
        let percent = |error: f64| format!("{:+.0} %", error * 100.0);
        let seconds = |s: f64| format!("{s:.2} s");
        let fetches = one.number("/fetches").unwrap_or(0.0).max(1.0);
        let swapped = one.number("/swapped/pages_in").unwrap_or(0.0) / fetches;
        let why = one.answer.pointer("/withheld/text").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {swapped:.2} | {} | {} |",
            one.program,
            program.local,
            cell("/native/median_s", seconds),
            cell("/predicted/run_s", seconds),
            cell("/swap/median_s", seconds),
            cell("/error", percent),
            cell("/error_at_equal_faults", percent),
            cell("/predicted/fault_ns", |ns| format!("{:.1} us", ns / 1e3)),
            [why, program.note.as_str()].join(" ").trim(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::program;
    use super::*;

    fn found(program: &str, error: Value) -> ProgramFound {
        let answer = serde_json::json!({
            "native": { "median_s": 1.0 }, "predicted": { "run_s": 2.0, "fault_ns": 7300.0 }, "swap": { "median_s": 2.5 }, "error": error,
            "error_at_equal_faults": 0.01, "fetches": 100, "swapped": { "pages_in": 150 },
            "withheld": if error.is_null() { serde_json::json!({ "text": "too few runs" }) } else { Value::Null },
        });
        ProgramFound { program: program.into(), answer }
    }

    #[test]
    fn errors_are_without_sign_and_only_of_answers() {
        let list = [
            found("a", (-0.2).into()),
            found("b", 0.05.into()),
            found("c", Value::Null),
            found("d", 0.1.into()),
        ];
        let errors = |list: &[ProgramFound], name: &str| errors(list).get(name).copied();
        assert_eq!(errors(&list, "programs"), Some(3.0));
        assert_eq!(errors(&list, "median-error"), Some(10.0));
        assert_eq!(errors(&list, "largest-error"), Some(20.0));
        assert!((errors(&list[..2], "median-error").unwrap() - 12.5).abs() < 1e-9);
        assert_eq!(errors(&list[2..3], "median-error"), None);
        assert!((errors(&list, "largest-error-at-equal-faults").unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(
            errors(&list[2..3], "median-error-at-equal-faults"),
            None,
            "what is withheld does not count"
        );
    }

    #[test]
    fn a_row_has_both_times_or_the_reason() {
        let text =
            table(&[program("a"), program("c")], &[found("a", (-0.2).into()), found("c", Value::Null)]);
        assert!(
            text.contains("| a | 25% | 1.00 s | 2.00 s | 2.50 s | -20 % | +1 % | 1.50 | 7.3 us | Because. |"),
            "{text}"
        );
        assert!(text.contains("| – | +1 % | 1.50 | 7.3 us | too few runs Because. |"), "{text}");
    }
}
