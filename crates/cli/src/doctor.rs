//! `unrack doctor`: which verbs can run on this machine, and what the others lack.

use crate::failure::{Failure, say};
use crate::{docs, rack, sockets, stdout, sweep};
use serde::Serialize;
use std::process::ExitCode;
use unrack_build::build;
use unrack_lines_run::Tools;
use unrack_record::{Machine, Started};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack doctor                  each verb: whether it can run here, and if not, what to do
  unrack doctor compare lines    of these verbs; status 3 if one cannot run
  unrack doctor --json

Nothing is changed: what only a trial shows (limits of a container, a kernel's settings) is said by the verb itself.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The verbs to check; by default, all
    #[arg(value_name = "VERB", value_parser = clap::builder::PossibleValuesParser::new(verbs()))]
    verbs: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A verb, or a use of one, and the check of what it needs.
struct Use {
    verb: &'static str,
    /// How it is used, if not every use needs the same.
    with: &'static str,
    check: fn() -> Result<(), String>,
}

const USES: [Use; 17] = [
    Use { verb: "compare", with: "", check: pages },
    Use { verb: "compare", with: "--access lines", check: lines },
    Use { verb: "map", with: "", check: pages },
    Use { verb: "run", with: "", check: pages },
    Use { verb: "run", with: "--fast", check: fast },
    Use { verb: "lines", with: "", check: lines },
    Use { verb: "swap", with: "", check: || text(unrack_swap::check_machine()) },
    Use { verb: "rack", with: "of namespaces", check: namespaces },
    Use { verb: "rack", with: "of processes (torus, mesh)", check: nothing },
    Use { verb: "rack", with: "of virtual machines", check: || text(unrack_guests::check_machine()) },
    Use { verb: "rpc", with: "", check: nothing },
    Use { verb: "rpc", with: "bench", check: two_cores },
    Use { verb: "sockets", with: "", check: || sockets::library().map(drop) },
    Use { verb: "sim", with: "", check: nothing },
    Use { verb: "sweep", with: "", check: nothing },
    Use { verb: "sweep", with: "--cluster", check: sweep::check_cluster },
    Use { verb: "docs", with: "", check: || docs::page().map(drop) },
];

/// One line of the answer.
#[derive(Serialize)]
struct Answer {
    verb: &'static str,
    with: &'static str,
    can_run: bool,
    /// What is missing, and what to do about it.
    lacks: Option<String>,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Found {
    verbs: Vec<Answer>,
    machine: Machine,
}

/// Runs `unrack doctor`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    let started = Started::now(build());
    let is_asked = |one: &&Use| args.verbs.is_empty() || args.verbs.iter().any(|verb| verb == one.verb);
    let answers: Vec<Answer> = USES.iter().filter(is_asked).map(answer).collect();
    let lacks = answers.iter().any(|answer| !answer.can_run);
    let text = match args.json {
        true => {
            let found = Found { verbs: answers, machine: started.machine() };
            serde_json::to_string(&found).map_err(|why| Failure::Failed(why.to_string()))? + "\n"
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

fn answer(one: &Use) -> Answer {
    let lacks = (one.check)().err();
    Answer { verb: one.verb, with: one.with, can_run: lacks.is_none(), lacks }
}

/// Returns a line for each answer.
fn table(answers: &[Answer]) -> String {
    let name = |answer: &Answer| format!("{} {}", answer.verb, answer.with).trim_end().to_string();
    let width = answers.iter().map(|answer| name(answer).len()).max().unwrap_or(0);
    let said = |answer: &Answer| answer.lacks.as_ref().map_or("yes".into(), |lacks| format!("no: {lacks}"));
    answers.iter().map(|answer| format!("{:width$}  {}\n", name(answer), said(answer))).collect()
}

fn text<E: std::fmt::Display>(checked: Result<(), E>) -> Result<(), String> {
    checked.map_err(|why| why.to_string())
}

fn nothing() -> Result<(), String> {
    Ok(())
}

fn pages() -> Result<(), String> {
    text(unrack_paging::check_machine())
}

fn fast() -> Result<(), String> {
    pages()?;
    text(unrack_paging::check_fast())
}

fn lines() -> Result<(), String> {
    text(Tools::find().map(drop))
}

fn namespaces() -> Result<(), String> {
    text(unrack_namespaces::check_machine())?;
    rack::library().map(drop)
}

fn two_cores() -> Result<(), String> {
    match std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get) {
        1 => Err(
            "client and server wait for each other on cores of their own, and this process may use one only"
                .into(),
        ),
        _ => Ok(()),
    }
}
