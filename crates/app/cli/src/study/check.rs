//! `unrack study check`: breaks the mechanisms of studies on purpose.

use crate::completions;
use crate::failure::CommandFailure;
use crate::folder;
use crate::points_bar::PointsBar;
use crate::stdout::print;
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_build::build;
use unrack_grid::runner::cores;
use unrack_record::{KeptPoints, RunPurpose, write_json};
use unrack_study::breaks::{BrokenMechanism, CheckedStudy, check};
use unrack_study::{Study, StudyScale};

#[derive(clap::Args)]
pub(super) struct StudyCheck {
    /// Studies as `unrack study list` names them; by default, all that do not measure this machine
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completions::studies))]
    names: Vec<String>,
    /// Run fewer points and messages, which takes seconds
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write results to this folder, and take finished points from it
    #[arg(long, value_name = "DIR", default_value = "runs/studies-check")]
    out: PathBuf,
}

/// Output of `--json`, and `check.json`.
#[derive(Serialize)]
struct Report<'a> {
    version: &'a str,
    quick: bool,
    studies: &'a [CheckedStudy],
}

impl StudyCheck {
    pub(super) fn run(&self, studies: Vec<Study>) -> Result<ExitCode, CommandFailure> {
        let all = ["all".to_string()];
        let names = if self.names.is_empty() { &all[..] } else { &self.names };
        let chosen = super::chosen(names, &studies)?;
        if let Some(study) = chosen.iter().find(|study| study.measured) {
            return Err(CommandFailure::Usage(format!(
                "{} measures this machine, so that nothing in it can be broken on purpose: leave it out",
                study.name
            )));
        }
        let scale = if self.quick { StudyScale::Quick } else { StudyScale::Full };
        let folder = folder::create(&self.out, &RunPurpose::new("study check", names.join(" "), ""), true)?;
        let kept = KeptPoints::open(folder.path("points"), &build())?;
        let checked = check(&chosen, scale, &kept, cores(), &PointsBar::new(None))?;
        let report = Report { version: env!("CARGO_PKG_VERSION"), quick: self.quick, studies: &checked };
        write_json(self.out.join("check.json"), &report)?;
        let text = match self.json {
            true => {
                serde_json::to_string(&report).map_err(|why| CommandFailure::Failed(why.to_string()))? + "\n"
            }
            false => checked.iter().map(text).collect(),
        };
        print(&text)?;
        let blind: Vec<&str> =
            checked.iter().filter(|study| !study.notices()).map(|study| study.study.as_str()).collect();
        match blind.is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false => Err(CommandFailure::Failed(format!(
                "no row notices a broken mechanism in {}: each study must have one that does",
                blind.join(", ")
            ))),
        }
    }
}

/// Returns the breaks of a study and the rows that notice, as text for people.
fn text(CheckedStudy { study, breaks }: &CheckedStudy) -> String {
    let mut text = format!("{study}\n");
    for BrokenMechanism { what, noticed, rows } in breaks {
        text += &format!("  {what}: {} of {rows} rows notice\n", noticed.len());
        for row in noticed {
            let missed = if row.is_missed { "; now missed" } else { "" };
            text += &format!("    {}: {}, broken {}{missed}\n", row.row, row.before, row.broken);
        }
    }
    if breaks.is_empty() {
        text += "  no mechanism to break is named\n";
    }
    text + "\n"
}
