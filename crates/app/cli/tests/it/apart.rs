//! Questions that a process with threads asks itself, while the command makes the runs of the program.

use crate::common;

use common::{Lab, wait_until};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use unrack_compare::{ComparisonFound, ComparisonQuestion, Error, QuestionCaller, RunsPlace, StepProgress};

/// Returns a small question about a command, with its folder in the lab.
fn question(lab: &Lab, command: &[&str]) -> ComparisonQuestion {
    ComparisonQuestion {
        local: "40%".parse().unwrap(),
        nodes: 4,
        transfers: 4000,
        repeat: 1,
        out: lab.path("out"),
        ..ComparisonQuestion::of(command.iter().map(Into::into).collect())
    }
}

/// Returns a caller whose runs the command makes.
fn asking<'a>(progress: &'a dyn StepProgress, cancel: &'a AtomicBool) -> QuestionCaller<'a> {
    QuestionCaller { progress, cancel, runs: RunsPlace::Command(Path::new(env!("CARGO_BIN_EXE_unrack"))) }
}

/// Returns whether a process with these words runs.
fn runs(words: &[&str]) -> bool {
    let wanted: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path().join("cmdline")).any(|path| std::fs::read(path).is_ok_and(|it| it == wanted))
}

#[test]
fn a_comparison_is_asked_here_and_the_command_makes_its_runs() {
    let Some(lab) = Lab::paging("apart") else { return };
    let question = question(&lab, &["dd", "if=/dev/zero", "of=/dev/null", "bs=8M", "count=10"]);
    let answer = question.ask(asking(&(), &AtomicBool::new(false))).unwrap();
    let ComparisonFound::Pages(comparison) = answer.found else { panic!("pages were asked for") };
    let names: Vec<_> = comparison.fabrics.iter().map(|fabric| fabric.fabric.as_str()).collect();
    assert_eq!(names, ["ideal", "edm", "cxl", "dctcp"]);
    assert!(comparison.footprint_bytes > 8 << 20 && comparison.capture.is_some(), "{comparison:?}");
    assert!(answer.report.is_file() && lab.path("out").join("trace.parquet").is_file());
}

#[test]
fn a_question_that_is_canceled_ends_the_run_under_way() {
    let Some(lab) = Lab::paging("apart-canceled") else { return };
    let seconds = format!("1000.{}", std::process::id());
    let (words, cancel) = (["sleep", seconds.as_str()], AtomicBool::new(false));
    let question = question(&lab, &words);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until("the program runs", || runs(&words));
            cancel.store(true, Relaxed);
        });
        assert_eq!(question.ask(asking(&(), &cancel)).err(), Some(Error::Canceled));
    });
    // The guard of the run ends the program, and may do so after the command has ended.
    wait_until("the program ends", || !runs(&words));
}

#[test]
fn errors_of_the_command_are_those_of_the_question() {
    let lab = Lab::new("apart-errors");
    let never = AtomicBool::new(false);
    let ask = |command: &[&str]| question(&lab, command).ask(asking(&(), &never)).map(drop).unwrap_err();
    let Error::Usage(text) = ask(&["no-such-program"]) else { panic!("a wrong question") };
    assert!(text.contains("no-such-program"), "{text}");
    let absent = lab.path("no-such-command");
    let nowhere = QuestionCaller { runs: RunsPlace::Command(&absent), ..asking(&(), &never) };
    let Err(Error::Lacking(text)) = question(&lab, &["true"]).ask(nowhere).map(drop) else {
        panic!("the command is lacking")
    };
    assert!(text.contains(absent.to_str().unwrap()), "{text}");
}
