//! Runs of a study's programs: each is a command of its own, `unrack swap` or `unrack map`, whose run folder is kept.

use crate::failure::{Failure, say};
use crate::provenance::build;
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_record::{RunFolder, read_json};
use unrack_study::programs::{Measurement, ProgramFound, StudyProgram};
use unrack_study::{Study, StudyScale};

/// Runs the programs of a study, without those that this build has run before.
pub(super) fn run(
    study: &Study,
    scale: StudyScale,
    folder: &RunFolder,
) -> Result<Vec<ProgramFound>, Failure> {
    let is_asked = |program: &&StudyProgram| scale == StudyScale::Full || program.quick;
    let asked: Vec<&StudyProgram> = study.programs.iter().filter(is_asked).collect();
    let mut found = Vec::new();
    for (n, program) in asked.iter().enumerate() {
        let out = folder.path(format!("programs/{}-{}", program.name, program.local.trim_end_matches('%')));
        let kept = kept(program.measure, &out);
        let answer = match kept {
            Some(answer) => answer,
            None => {
                say(&format!("{} of {}: {}", n + 1, asked.len(), program.name));
                one(program, &out)?
            }
        };
        found.push(ProgramFound { program: program.name.clone(), answer });
    }
    Ok(found)
}

/// Returns the command's name, its answer's file, and the field that a complete answer has.
fn parts(measure: Measurement) -> (&'static str, &'static str, &'static str) {
    match measure {
        Measurement::Swap => ("swap", "swap.json", "/error"),
        Measurement::Map => ("map", "map.json", "/native_s"),
    }
}

/// Returns the answer in a folder, if this build has found it.
fn kept(measure: Measurement, out: &Path) -> Option<serde_json::Value> {
    let (_, file, field) = parts(measure);
    let answer: serde_json::Value = read_json(out.join(file)).ok()?;
    let manifest: serde_json::Value = read_json(out.join("manifest.json")).ok()?;
    let is_answered = answer.pointer(field).is_some_and(serde_json::Value::is_number);
    let sources = manifest.pointer("/sources").and_then(serde_json::Value::as_str);
    (is_answered && sources == Some(build().sources.as_str())).then_some(answer)
}

/// Runs one program, and returns what its command found. Its size is small, unless `UNRACK_TEST_SCALE` says `full`.
fn one(program: &StudyProgram, out: &Path) -> Result<serde_json::Value, Failure> {
    let here = std::env::current_exe()
        .map_err(|why| Failure::Failed(format!("cannot find this executable: {why}")))?;
    let beside = |name: &str| here.with_file_name(name);
    let with_environment = |mut command: Command| {
        command
            .env("UNRACK_STRESS", beside("unrack-stress"))
            .env("UNRACK_BUILD", beside(""))
            .stdin(Stdio::null());
        command
    };
    if let Some((first, rest)) = program.prepare.split_first() {
        let mut prepare = with_environment(Command::new(first));
        let status = prepare.args(rest).status().map_err(|why| {
            Failure::Lacking(format!(
                "cannot run {first}: {why}: run this study in the folder of Unrack's sources"
            ))
        })?;
        if status.code() == Some(3) {
            return Ok(withheld("lacking", format!("{} lacks something here", program.name)));
        }
        if !status.success() {
            return Err(Failure::Failed(format!("{first} could not make the inputs of {}", program.name)));
        }
    }
    let mut measure = with_environment(Command::new(&here));
    let repeat = program.repeat.to_string();
    measure.arg(parts(program.measure).0);
    measure.args(["--json", "--replace", "--repeat", &repeat, "--local", &program.local, "--out"]).arg(out);
    if let Some(budget) = &program.budget {
        measure.args(["--budget", budget]);
    }
    measure.arg("--").args(&program.command);
    let output = measure
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| Failure::Failed(format!("cannot run unrack: {why}")))?;
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).map_err(|why| Failure::Failed(why.to_string())),
        Some(3) => Err(Failure::Lacking(format!(
            "the programs of this study cannot be run here (above): {}",
            program.name
        ))),
        // A shell's status for a signal: whoever sent it wants the study to end, too.
        Some(128..) | None => Err(Failure::Failed(format!("{} was ended: {}", program.name, output.status))),
        Some(_) => {
            Ok(withheld("failed", format!("{} could not be measured: {}", program.name, output.status)))
        }
    }
}

/// Says that a program has no result, whose reason it or its command has printed, and returns that as its answer.
fn withheld(key: &str, text: String) -> serde_json::Value {
    say(&format!("{text} (above)"));
    serde_json::json!({ "withheld": { "key": key, "text": text } })
}
