//! Runs of a study's programs: each is an `unrack swap` of its own, whose run folder is kept.

use crate::failure::{Failure, say};
use crate::provenance::build;
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_record::{RunFolder, read_json};
use unrack_study::programs::{ProgramFound, StudyProgram};
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
        let kept = kept(&out);
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

/// Returns the answer in a folder, if this build has found it.
fn kept(out: &Path) -> Option<serde_json::Value> {
    let answer: serde_json::Value = read_json(out.join("swap.json")).ok()?;
    let manifest: serde_json::Value = read_json(out.join("manifest.json")).ok()?;
    let is_answered = answer.get("error").is_some_and(serde_json::Value::is_number);
    let sources = manifest.pointer("/sources").and_then(serde_json::Value::as_str);
    (is_answered && sources == Some(build().sources.as_str())).then_some(answer)
}

/// Runs one program, and returns what `unrack swap` found. Its size is small, unless `UNRACK_TEST_SCALE` says `full`.
fn one(program: &StudyProgram, out: &Path) -> Result<serde_json::Value, Failure> {
    let here = std::env::current_exe()
        .map_err(|why| Failure::Failed(format!("cannot find this executable: {why}")))?;
    let stress = here.with_file_name("unrack-stress");
    let with_environment = |mut command: Command| {
        command.env("UNRACK_STRESS", &stress).stdin(Stdio::null());
        command
    };
    if let Some((first, rest)) = program.prepare.split_first() {
        let mut prepare = with_environment(Command::new(first));
        let status = prepare.args(rest).status().map_err(|why| {
            Failure::Lacking(format!(
                "cannot run {first}: {why}: run this study in the folder of Unrack's sources"
            ))
        })?;
        if !status.success() {
            return Err(Failure::Failed(format!("{first} could not make the inputs of {}", program.name)));
        }
    }
    let mut swap = with_environment(Command::new(&here));
    let repeat = program.repeat.to_string();
    swap.args(["swap", "--json", "--replace", "--repeat", &repeat, "--local", &program.local, "--out"])
        .arg(out)
        .arg("--")
        .args(&program.command);
    let output = swap
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
            let text = format!("{} could not be measured: {}", program.name, output.status);
            say(&format!("{text} (above)"));
            Ok(serde_json::json!({ "withheld": { "key": "failed", "text": text } }))
        }
    }
}
