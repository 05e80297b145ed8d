//! `unrack report`: one page from the folders of one or several runs.

use crate::failure::{Failure, say};
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_report::{Report, ReportError, write_pngs, write_svgs};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack report runs/redis -o report.html               the page of one run
  unrack report runs/edm runs/dctcp -o both.html        simulations side by side
  unrack report runs/redis -o report.html --svg figures
                                                        and each figure as files: SVG, Vega-Lite

DIR is what `unrack compare`, `unrack map` or `unrack sim` wrote with --out. The page is one file and \
needs no network.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run folders, in the order of the page
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Write the page to this file
    #[arg(short, long, value_name = "FILE.html", required_unless_present_any = ["png", "svg"])]
    output: Option<PathBuf>,
    /// Write every figure to this folder as PNG
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Write every figure to this folder as SVG, and as Vega-Lite specification (.vl.json) to restyle it
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Runs `unrack report`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    let report = Report::read(&args.folders).map_err(|why| Failure::Usage(why.to_string()))?;
    report.unlike().iter().for_each(|warning| say(warning));
    if let Some(page) = &args.output {
        report.write(page)?;
        say(&format!("wrote {}", page.display()));
    }
    let figures = report.figures();
    if let Some(folder) = &args.svg {
        told(write_svgs(&figures, folder)?);
    }
    if let Some(folder) = &args.png {
        told(write_pngs(&figures, folder)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn told(written: Vec<PathBuf>) {
    written.iter().for_each(|path| say(&format!("wrote {}", path.display())));
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Failure {
        match error {
            ReportError::NoFolder
            | ReportError::NotARun { .. }
            | ReportError::NothingToCompare { .. }
            | ReportError::NotComparable { .. } => Failure::Usage(error.to_string()),
            ReportError::NoFonts => Failure::Lacking(error.to_string()),
            _ => Failure::Failed(error.to_string()),
        }
    }
}
