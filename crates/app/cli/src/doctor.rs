//! `unrack doctor`: checks which subcommands can run on this machine, and what is missing for the others.

use crate::failure::{CommandFailure, say};
use crate::{docs, rack, sockets, stdout, sweep};
use serde::Serialize;
use std::process::ExitCode;
use unrack_build::build;
use unrack_guests::Accelerator;
use unrack_lines_run::Tools;
use unrack_record::{Machine, StartedCommand};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack doctor                  each verb: whether it can run here, and if not, what to do
  unrack doctor compare lines    of these verbs; status 3 if one cannot run
  unrack doctor --json

`doctor rack` makes a network namespace with its links and runs a small virtual machine, because only a trial shows whether
they work. Both are removed at once; this may take some seconds. Nothing else is changed. `swap` needs a device and a cgroup,
which it makes only when it runs; it says then if this user may not.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The verbs to check; by default, all
    #[arg(value_name = "VERB", value_parser = clap::builder::PossibleValuesParser::new(verbs()))]
    verbs: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Result of the check of a subcommand. `Ok`: it can run; an optional note describes how it would run. `Err`: the missing requirement.
type CheckResult = Result<Option<&'static str>, String>;

/// A subcommand, or one way to use it, and the check of its requirements.
struct CheckedUse {
    verb: &'static str,
    /// Way of using the subcommand, if different uses have different requirements.
    with: &'static str,
    check: fn() -> CheckResult,
}

const USES: [CheckedUse; 18] = [
    CheckedUse { verb: "compare", with: "", check: pages },
    CheckedUse { verb: "compare", with: "--access lines", check: lines },
    CheckedUse { verb: "map", with: "", check: pages },
    CheckedUse { verb: "run", with: "", check: pages },
    CheckedUse { verb: "run", with: "--fast", check: fast },
    CheckedUse { verb: "run", with: "--pid", check: borrowing },
    CheckedUse { verb: "lines", with: "", check: lines },
    CheckedUse { verb: "swap", with: "", check: || text(unrack_swap::check_machine()).map(|()| None) },
    CheckedUse { verb: "rack", with: "of namespaces", check: namespaces },
    CheckedUse { verb: "rack", with: "of processes (torus, mesh)", check: nothing },
    CheckedUse { verb: "rack", with: "of virtual machines", check: guests },
    CheckedUse { verb: "rpc", with: "", check: nothing },
    CheckedUse { verb: "rpc", with: "bench", check: two_cores },
    CheckedUse { verb: "sockets", with: "", check: || sockets::library().map(|_| None) },
    CheckedUse { verb: "sim", with: "", check: nothing },
    CheckedUse { verb: "sweep", with: "", check: nothing },
    CheckedUse { verb: "sweep", with: "--cluster", check: || sweep::check_cluster().map(|()| None) },
    CheckedUse { verb: "docs", with: "", check: || docs::page().map(|_| None) },
];

/// One line of the output.
#[derive(Serialize)]
struct DoctorLine {
    verb: &'static str,
    with: &'static str,
    can_run: bool,
    /// Note on how the subcommand would run.
    note: Option<&'static str>,
    /// What is missing, and how to fix it.
    lacks: Option<String>,
}

/// Output of `--json`.
#[derive(Serialize)]
struct DoctorReport {
    verbs: Vec<DoctorLine>,
    machine: Machine,
}

/// Runs `unrack doctor`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let started = StartedCommand::now(build());
    let is_asked =
        |one: &&CheckedUse| args.verbs.is_empty() || args.verbs.iter().any(|verb| verb == one.verb);
    let answers: Vec<DoctorLine> = USES.iter().filter(is_asked).map(answer).collect();
    let lacks = answers.iter().any(|answer| !answer.can_run);
    let text = match args.json {
        true => {
            let found = DoctorReport { verbs: answers, machine: started.machine() };
            serde_json::to_string(&found).map_err(|why| CommandFailure::Failed(why.to_string()))? + "\n"
        }
        false => table(&answers),
    };
    stdout::print(&text)?;
    if lacks && args.verbs.is_empty() {
        say("every other verb can run here");
    }
    Ok(ExitCode::from(if lacks && !args.verbs.is_empty() { 3 } else { 0 }))
}

fn verbs() -> Vec<&'static str> {
    let mut verbs: Vec<&str> = USES.iter().map(|one| one.verb).collect();
    verbs.dedup();
    verbs
}

fn answer(one: &CheckedUse) -> DoctorLine {
    let checked = (one.check)();
    let (can_run, note) = (checked.is_ok(), checked.as_ref().ok().copied().flatten());
    DoctorLine { verb: one.verb, with: one.with, can_run, note, lacks: checked.err() }
}

/// Returns a table with a line for each answer.
fn table(answers: &[DoctorLine]) -> String {
    let name = |answer: &DoctorLine| format!("{} {}", answer.verb, answer.with).trim_end().to_string();
    let width = answers.iter().map(|answer| name(answer).len()).max().unwrap_or(0);
    let said = |answer: &DoctorLine| match (&answer.lacks, answer.note) {
        (Some(lacks), _) => format!("no: {lacks}"),
        (None, Some(note)) => format!("yes: {note}"),
        (None, None) => "yes".into(),
    };
    answers.iter().map(|answer| format!("{:width$}  {}\n", name(answer), said(answer))).collect()
}

fn text<T, E: std::fmt::Display>(checked: Result<T, E>) -> Result<T, String> {
    checked.map_err(|why| why.to_string())
}

fn nothing() -> CheckResult {
    Ok(None)
}

fn pages() -> CheckResult {
    text(unrack_paging::check_machine()).map(|()| unrack_paging::lost_on_this_kernel())
}

fn fast() -> CheckResult {
    pages()?;
    text(unrack_paging::check_fast()).map(|()| None)
}

fn borrowing() -> CheckResult {
    pages()?;
    text(unrack_paging::check_borrowing()).map(|()| None)
}

fn lines() -> CheckResult {
    text(Tools::find()).map(|_| None)
}

fn namespaces() -> CheckResult {
    text(unrack_namespaces::try_machine())?;
    rack::library().map(|_| None)
}

fn guests() -> CheckResult {
    text(unrack_guests::try_machine()).map(|accelerator| match accelerator {
        Accelerator::Kvm => None,
        Accelerator::Tcg => Some("emulated by QEMU, since KVM runs no kernel here"),
    })
}

fn two_cores() -> CheckResult {
    match std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get) {
        1 => Err(
            "the client and the server each need a core while they wait for each other, and this process may use only one"
                .into(),
        ),
        _ => Ok(None),
    }
}
