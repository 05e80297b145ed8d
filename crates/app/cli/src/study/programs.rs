//! Runs of a study's programs. A separate command measures each program; the study stores its run folder and its answer.

use crate::failure::{CommandFailure, say};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_paging::{Input, TimedRun};
use unrack_record::{RunFolder, read_json, trace};
use unrack_study::programs::fabrics::{BURSTINESS, burstiness};
use unrack_study::programs::{Measurement, ProgramFound, StudyProgram};
use unrack_study::{Study, StudyScale};

/// Stored answer, with the sources of the measurement and the arguments of the command.
#[derive(Serialize, Deserialize)]
struct KeptAnswer {
    /// `UNRACK_MEASURING` of the build.
    sources: String,
    asked: Vec<String>,
    answer: Value,
}

/// Measures the programs of a study. Programs that this build has already measured are taken from the folder.
pub(super) fn run(
    study: &Study,
    scale: StudyScale,
    folder: &RunFolder,
) -> Result<Vec<ProgramFound>, CommandFailure> {
    let is_asked = |program: &&StudyProgram| scale == StudyScale::Full || program.quick;
    let asked: Vec<&StudyProgram> = study.programs.iter().filter(is_asked).collect();
    if !asked.is_empty() {
        let path = folder.path("programs");
        std::fs::create_dir_all(&path)
            .map_err(|why| CommandFailure::Failed(format!("cannot make {}: {why}", path.display())))?;
    }
    let mut found = Vec::new();
    for (n, program) in asked.iter().enumerate() {
        let name = format!("programs/{}", program.name);
        let file = format!("{name}.json");
        let sources = unrack_build::MEASURING.to_string();
        let question = [&program.prepare[..], &arguments(program, Path::new(""))].concat();
        let is_same = |kept: &KeptAnswer| kept.sources == sources && kept.asked == question;
        let kept = read_json::<KeptAnswer>(folder.path(&file)).ok().filter(is_same);
        let answer = match kept {
            Some(kept) => kept.answer,
            None => {
                say(&format!("{} of {}: {}", n + 1, asked.len(), program.name));
                let answer = one(program, &folder.path(&name))?;
                if is_answered(program.measure, &answer) {
                    folder.write_json(
                        &file,
                        &KeptAnswer { sources, asked: question, answer: answer.clone() },
                    )?;
                }
                answer
            }
        };
        found.push(ProgramFound { program: program.name.clone(), answer });
    }
    Ok(found)
}

/// Returns whether an answer is complete.
fn is_answered(measure: Measurement, answer: &Value) -> bool {
    let field = match measure {
        Measurement::Swap => "/error",
        Measurement::Map => "/native_s",
        Measurement::Lines => "/lines/predicted_near_s/value",
        Measurement::Compare | Measurement::Native => "/native/median_s",
        Measurement::Node => "/ways/0/bytes_per_s",
    };
    answer.pointer(field).is_some_and(Value::is_number)
}

/// Measures one program, and returns the answer of the measuring command. The program's input is small, unless the environment variable
/// `UNRACK_TEST_SCALE` is `full`.
fn one(program: &StudyProgram, out: &Path) -> Result<Value, CommandFailure> {
    let here = std::env::current_exe()
        .map_err(|why| CommandFailure::Failed(format!("cannot find this executable: {why}")))?;
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
            CommandFailure::Lacking(format!(
                "cannot run {first}: {why}: run this study in the folder of Unrack's sources"
            ))
        })?;
        if status.code() == Some(3) {
            return Ok(withheld("lacking", format!("{} lacks something here", program.name)));
        }
        if !status.success() {
            return Err(CommandFailure::Failed(format!(
                "{first} could not make the inputs of {}",
                program.name
            )));
        }
    }
    if program.measure == Measurement::Native {
        return natively(program, &beside(""), out);
    }
    let mut measure = with_environment(Command::new(&here));
    let output = measure
        .args(arguments(program, out))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| CommandFailure::Failed(format!("cannot run unrack: {why}")))?;
    match output.status.code() {
        Some(0) => {
            let mut answer: Value = serde_json::from_slice(&output.stdout)
                .map_err(|why| CommandFailure::Failed(why.to_string()))?;
            if program.measure == Measurement::Compare {
                let captured = trace::read(out.join("trace.parquet")).ok();
                answer[BURSTINESS] = captured.and_then(|(_, rows)| burstiness(&rows)).into();
            }
            Ok(answer)
        }
        Some(3) => Err(CommandFailure::Lacking(format!(
            "the programs of this study cannot be run here (above): {}",
            program.name
        ))),
        // A status of 128 or more means that a signal ended the command. The sender of the signal wants the study to end, too.
        Some(128..) | None => {
            Err(CommandFailure::Failed(format!("{} was ended: {}", program.name, output.status)))
        }
        Some(_) => {
            Ok(withheld("failed", format!("{} could not be measured: {}", program.name, output.status)))
        }
    }
}

/// Returns the arguments of the Unrack command that measures a program. A native run does not use that command; its arguments only state
/// the number of runs, so that a stored answer is reused for an equal number.
fn arguments(program: &StudyProgram, out: &Path) -> Vec<String> {
    let mut all: Vec<String> = words(program.measure).iter().map(|word| word.to_string()).collect();
    all.push("--json".into());
    all.extend(program.options.iter().cloned());
    if program.measure != Measurement::Node {
        all.extend(["--replace", "--local", &program.local, "--out"].map(String::from));
        all.push(out.display().to_string());
        let limits =
            [("--repeat", program.repeat.map(|n| n.to_string())), ("--budget", program.budget.clone())];
        for (option, value) in limits {
            all.extend(value.into_iter().flat_map(|value| [option.to_string(), value]));
        }
        all.push("--".into());
        all.extend(program.command.iter().cloned());
    }
    all
}

/// Returns the subcommand that does the measurement.
fn words(measure: Measurement) -> &'static [&'static str] {
    match measure {
        Measurement::Swap => &["swap"],
        Measurement::Map => &["map"],
        Measurement::Lines => &["compare", "--access", "lines"],
        Measurement::Compare => &["compare"],
        Measurement::Node => &["memory", "bench"],
        Measurement::Native => &[],
    }
}

/// Runs a program natively for the requested number of times, and returns the median times.
fn natively(program: &StudyProgram, build: &Path, out: &Path) -> Result<Value, CommandFailure> {
    std::fs::create_dir_all(out)
        .map_err(|why| CommandFailure::Failed(format!("cannot make {}: {why}", out.display())))?;
    let mut command: Vec<OsString> = vec!["env".into()];
    let mut variable = OsString::from("UNRACK_BUILD=");
    variable.push(build);
    command.push(variable);
    command.extend(program.command.iter().map(OsString::from));
    let mut runs = Vec::new();
    for _ in 0..program.repeat.unwrap_or(1).max(1) {
        match unrack_compare::native_run(&command, &Input::Empty, Some(&out.join("output")), None) {
            Ok(run) => runs.push(run),
            Err(unrack_compare::Error::Failed(why)) => return Ok(withheld("failed", why)),
            Err(other) => return Err(other.into()),
        }
    }
    let median =
        |of: fn(&TimedRun) -> f64| unrack_paging::fit::median(&mut runs.iter().map(of).collect::<Vec<f64>>());
    Ok(serde_json::json!({
        "native": {
            "median_s": median(|run| run.wall_s),
            "processor_s": median(|run| run.processor_s),
            "seconds": runs.iter().map(|run| run.wall_s).collect::<Vec<_>>(),
        },
    }))
}

/// Reports that a program has no result, and returns that as the program's answer. The program or its command has already printed the
/// reason.
fn withheld(key: &str, text: String) -> Value {
    say(&format!("{text} (above)"));
    serde_json::json!({ "withheld": { "key": key, "text": text } })
}
