//! Cost of the kernel's faults, by the same touches for every program.

use crate::failure::Failure;
use crate::runs::survey::Survey;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::Arc;
use unrack_paging::fit::median;
use unrack_paging::{CheckedProgram, Input, OutputTarget, native};
use unrack_record::RunFolder;
use unrack_swap::touch::{Touched, touch};
use unrack_swap::{KernelSwap, SwapDevice};
use unrack_units::Bytes;

/// Name of the hidden verb.
pub(crate) const VERB: &str = "__touch-swap";
/// Memory that is touched, and the part of it that is local: most touches are faults then.
const PAGES: usize = 32 << 10;
const LOCAL: Bytes = Bytes::new((PAGES as u64 * unrack_basis::PAGE as u64) / 4);
/// Less of it for disks, which take a hundred times as long.
const PAGES_ON_DISK: usize = 8 << 10;

/// Cost of swapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FaultCost {
    /// Time in ns of a touch that swaps a page in, and another out for it.
    pub fault_ns: f64,
    /// Least and largest of it, by passes.
    pub range_ns: [f64; 2],
    /// Time in ns that swapping out adds to the first touch of a page.
    pub out_ns: f64,
    /// Uncompressed over compressed size of the touched pages, if the device compresses.
    pub compression: Option<f64>,
}

/// Measures the cost, with pages of the program.
pub(super) fn measure(
    swap: &KernelSwap,
    device: &SwapDevice,
    survey: &Survey,
    contents: &[u8],
) -> Result<FaultCost, Failure> {
    survey.steps.begin("measuring the kernel's fault");
    let pages = if *device == SwapDevice::Zram { PAGES } else { PAGES_ON_DISK };
    let local = Bytes::new(LOCAL.get() * pages as u64 / PAGES as u64);
    let executable = std::env::current_exe()
        .map_err(|why| Failure::Failed(format!("cannot find this executable: {why}")))?;
    // A program that ended at once had none to look at.
    let contents = if contents.is_empty() { &[0; unrack_basis::PAGE] } else { contents };
    let file = without_name(survey.runner.folder, contents)
        .map_err(|why| Failure::Failed(format!("cannot keep pages in the run folder: {why}")))?;
    let pages = pages.to_string();
    let words = [executable.into_os_string(), VERB.into(), "--pages".into(), pages.into()];
    let words: Vec<OsString> = swap.command(&words);
    let mut job = CheckedProgram::prepare(&words)?;
    job.input = Input::Kept { file: Arc::new(file), offset: 0 };
    let output = survey.runner.folder.path("touched.out");
    let (ran, counts) = swap.run(local, || native(&job, &OutputTarget::File(output.clone()), None))?;
    ran?;
    let text = std::fs::read_to_string(&output).unwrap_or_default();
    let mut touched = Touched::parse(&text)
        .ok_or_else(|| Failure::Failed(format!("the kernel's fault could not be measured: {text:?}")))?;
    let range_ns =
        touched.fault_ns.iter().fold([f64::INFINITY, 0.0], |[least, most], ns| [ns.min(least), ns.max(most)]);
    Ok(FaultCost {
        fault_ns: median(&mut touched.fault_ns),
        range_ns,
        out_ns: (touched.crowded_ns - touched.fresh_ns).max(0.0),
        compression: counts.compression,
    })
}

/// Keeps pages in a file that only this process and its children can find: they may hold secrets of the program.
fn without_name(folder: &RunFolder, contents: &[u8]) -> std::io::Result<File> {
    let path = folder.path("pages");
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(contents)?;
    Ok(file)
}

/// Arguments of the hidden verb.
#[derive(clap::Args)]
pub(crate) struct TouchArgs {
    #[arg(long)]
    pages: usize,
}

impl TouchArgs {
    /// Touches pages with the contents that stdin gives, and prints the times.
    pub(crate) fn main(self) -> Result<ExitCode, Failure> {
        let mut contents = Vec::new();
        let read = std::io::stdin().read_to_end(&mut contents);
        let touched = read.and_then(|_| touch(self.pages, &contents, std::io::stdout()));
        touched.map_err(|why| Failure::Failed(why.to_string()))?;
        Ok(ExitCode::SUCCESS)
    }
}
