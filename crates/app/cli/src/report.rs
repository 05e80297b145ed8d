//! `unrack report`: makes one page from the folders of one or several runs.

use crate::failure::{CommandFailure, say};
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_report::{ReportError, ReportPage, write_svgs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack report runs/redis -o report.html               the page of one run
  unrack report runs/edm runs/dctcp -o both.html        simulations side by side
  unrack report runs/load -o load.html                  a sweep: lines, with bands where seeds vary
  unrack report runs/redis -o report.html --svg figures
                                                        and each figure as files: SVG, Vega-Lite

DIR is what `unrack compare`, `map`, `sim` or `sweep` wrote with --out. The page is one file and \
needs no network. For a PNG: `rsvg-convert -z 2 ID.svg -o ID.png`, or vl-convert of the specification.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run folders, in the order of the page
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Write the page to this file
    #[arg(short, long, value_name = "FILE.html", required_unless_present = "svg")]
    output: Option<PathBuf>,
    /// Write every figure to this folder as SVG, and as Vega-Lite specification (.vl.json) to restyle it
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Runs `unrack report`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let report = ReportPage::read(&args.folders).map_err(|why| CommandFailure::Usage(why.to_string()))?;
    report.unlike().iter().for_each(|warning| say(warning));
    if let Some(page) = &args.output {
        report.write(page)?;
        say(&format!("wrote {}", page.display()));
    }
    if let Some(folder) = &args.svg {
        told(write_svgs(&report.figures(), folder)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn told(written: Vec<PathBuf>) {
    written.iter().for_each(|path| say(&format!("wrote {}", path.display())));
}

impl From<ReportError> for CommandFailure {
    fn from(error: ReportError) -> CommandFailure {
        match error {
            ReportError::NoFolder
            | ReportError::NotARun { .. }
            | ReportError::NothingToCompare { .. }
            | ReportError::NotComparable { .. } => CommandFailure::Usage(error.to_string()),
            _ => CommandFailure::Failed(error.to_string()),
        }
    }
}
