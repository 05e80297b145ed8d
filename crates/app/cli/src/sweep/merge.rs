//! `unrack sweep merge`: makes the table of a sweep whose parts were run separately.

use super::part::PartFile;
use super::{created, save, show};
use crate::fail_if::{self, FailIf, ValueShape};
use crate::failure::{CommandFailure, say};
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_build::build;
use unrack_grid::sweep::KEPT;
use unrack_record::{KeptPoints, StartedCommand};
use unrack_sim::Summary;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Folders of the parts
    #[arg(required = true, value_name = "DIR")]
    parts: Vec<PathBuf>,
    /// Write points, table and charts to this folder, as `unrack sweep` does
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace another run in that folder, and the table of a sweep with points that this one lacks
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "EXPRESSION", help = fail_if::HELP)]
    fail_if: Option<FailIf>,
}

/// Runs `unrack sweep merge`.
pub(super) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let started = StartedCommand::now(build());
    args.fail_if.iter().try_for_each(|limit| limit.check(&ValueShape::from_type::<Summary>()))?;
    let file = args.whole()?;
    let found = args.found(&file)?;
    let folder = created(&args.out, &file.plan, &file.file, args.replace)?;
    let kept = KeptPoints::open(folder.path(KEPT), &build())?;
    for (point, summary) in file.plan.points.iter().zip(&found) {
        kept.write(&point.scenario_hash, &file.plan.asked, summary)?;
    }
    let sweep = file.plan.table(build().version, &found);
    save(&folder, &args.out, &file, &sweep, &started)?;
    show(&sweep, args.json, &started)?;
    say(&format!("wrote {}", args.out.display()));
    if let Some(limit) = &args.fail_if {
        let named: Vec<_> = file.plan.points.iter().map(|point| point.set.join(" ")).zip(found).collect();
        limit.judge_all(&named)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the description of the whole sweep, in which all parts must agree.
    fn whole(&self) -> Result<PartFile, CommandFailure> {
        let mut whole: Option<(PartFile, &PathBuf)> = None;
        for folder in &self.parts {
            let files = PartFile::all_in(folder)?;
            if files.is_empty() {
                let text = format!(
                    "{} has no part of a sweep: name the folders that `unrack sweep --part` wrote",
                    folder.display()
                );
                return Err(CommandFailure::Usage(text));
            }
            for file in files {
                match &whole {
                    Some((first, of)) if first.plan != file.plan => {
                        return Err(CommandFailure::Usage(format!(
                            "{} and {} have parts of two sweeps: parts of one have the same scenario, values and \
                             seeds",
                            of.display(),
                            folder.display()
                        )));
                    }
                    Some(_) => {}
                    None => whole = Some((file, folder)),
                }
            }
        }
        Ok(whole.expect("at least one folder is named").0)
    }

    /// Returns the results of all points, in the order of the points.
    fn found(&self, file: &PartFile) -> Result<Vec<Summary>, CommandFailure> {
        let open = |folder: &PathBuf| KeptPoints::open(folder.join(KEPT), &build());
        let folders = self.parts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let read = |hash: &str| folders.iter().find_map(|kept| kept.read(hash, &file.plan.asked));
        let found: Vec<Option<Summary>> =
            file.plan.points.iter().map(|point| read(&point.scenario_hash)).collect();
        let missing: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
        let Some(first) = missing.first() else {
            return Ok(found.into_iter().flatten().collect());
        };
        let (all, of) = (found.len(), file.part.of);
        let mut parts: Vec<u32> = missing.iter().map(|index| (index % of as usize) as u32 + 1).collect();
        parts.sort_unstable();
        parts.dedup();
        let parts: Vec<String> = parts.iter().map(u32::to_string).collect();
        Err(CommandFailure::Failed(format!(
            "{} of {all} points are missing, the first with {}: run part {} of {of} again with this build of \
             unrack, and name all folders",
            missing.len(),
            file.plan.points[*first].set.join(" "),
            parts.join(", ")
        )))
    }
}
