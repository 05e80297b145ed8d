//! Cost of the kernel's page faults under swap, measured with the same page touches for every program.

use crate::error::Error;
use crate::runs::survey::Survey;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use unrack_paging::fit::median;
use unrack_paging::{CheckedProgram, Input, OutputTarget, native};
use unrack_record::RunFolder;
use unrack_swap::touch::Touched;
use unrack_swap::{KernelSwap, SwapDevice};
use unrack_units::Bytes;

/// Hidden subcommand of `unrack` that touches pages.
pub const SWAP_TOUCH_VERB: &str = "__touch-swap";
/// Number of touched pages. `LOCAL` is the part of their memory that is local, so small that most touches are faults.
const PAGES: usize = 32 << 10;
const LOCAL: Bytes = Bytes::new((PAGES as u64 * unrack_basis::PAGE as u64) / 4);
/// Number of touched pages if swap is on a disk, which takes a hundred times as long.
const PAGES_ON_DISK: usize = 8 << 10;

/// Cost of swapping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultCost {
    /// Cost for one thread.
    pub alone: Touches,
    /// Cost for several threads at the same time; `None` if the program has one thread, or this machine one core.
    pub together: Option<Touches>,
    /// Compression ratio of the touched pages (uncompressed size over compressed size), if the device compresses.
    pub compression: Option<f64>,
}

/// Times of page touches, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Touches {
    /// Threads that touched pages at the same time.
    pub threads: u64,
    /// Time of a touch that swaps one page in and another one out.
    pub fault_ns: f64,
    /// Minimum and maximum of `fault_ns` over the passes.
    pub range_ns: [f64; 2],
    /// Time that swapping out adds to the first touch of a page.
    pub out_ns: f64,
    /// Number of pages that the kernel scanned for each page that it swapped out.
    pub scanned_per_out: f64,
}

impl FaultCost {
    /// Returns the cost of a fault if `overlap` faults are in flight at the same time, on average. The cost rises with the overlap because
    /// threads wait for each other's locks, and because each core that runs one of the threads must drop its mapping of an evicted page.
    /// Between the two measured overlaps the cost is interpolated linearly.
    pub(super) fn at(&self, overlap: f64) -> Touches {
        let (alone, Some(together)) = (self.alone, self.together) else { return self.alone };
        let most = together.threads as f64;
        let share = if most > 1.0 { (overlap.clamp(1.0, most) - 1.0) / (most - 1.0) } else { 0.0 };
        let between = |one: f64, other: f64| one + (other - one) * share;
        Touches {
            threads: together.threads,
            fault_ns: between(alone.fault_ns, together.fault_ns),
            range_ns: [0, 1].map(|end| between(alone.range_ns[end], together.range_ns[end])),
            out_ns: between(alone.out_ns, together.out_ns),
            scanned_per_out: between(alone.scanned_per_out, together.scanned_per_out),
        }
    }
}

/// Measures the cost of swapping pages that have contents of the program's pages. It is measured for one thread, and also for `threads`
/// threads if the program has more than one.
pub(super) fn measure(
    swap: &KernelSwap,
    device: &SwapDevice,
    survey: &Survey,
    contents: &[u8],
    threads: u64,
) -> Result<FaultCost, Error> {
    survey.steps.begin("measuring the kernel's fault")?;
    let pages = if *device == SwapDevice::Zram { PAGES } else { PAGES_ON_DISK };
    let local = Bytes::new(LOCAL.get() * pages as u64 / PAGES as u64);
    let executable = std::env::current_exe()
        .map_err(|why| Error::Failed(format!("cannot find this executable: {why}")))?;
    // A program that ended at once had no pages to sample.
    let contents = if contents.is_empty() { &[0; unrack_basis::PAGE] } else { contents };
    let file = without_name(survey.runner.folder, contents)
        .map_err(|why| Error::Failed(format!("cannot keep pages in the run folder: {why}")))?;
    let file = Arc::new(file);
    let touches = |threads: u64| -> Result<(Touches, Option<f64>), Error> {
        let options = [SWAP_TOUCH_VERB, "--pages", &pages.to_string(), "--threads", &threads.to_string()]
            .map(OsString::from);
        let words: Vec<OsString> = [executable.clone().into_os_string()].into_iter().chain(options).collect();
        let mut job = CheckedProgram::prepare(&swap.command(&words))?;
        job.input = Input::Kept { file: file.clone(), offset: 0 };
        let output = survey.runner.folder.path("touched.out");
        let (ran, counts) = swap.run(local, || native(&job, &OutputTarget::File(output.clone()), None))?;
        ran?;
        let text = std::fs::read_to_string(&output).unwrap_or_default();
        let mut touched = Touched::parse(&text)
            .ok_or_else(|| Error::Failed(format!("the kernel's fault could not be measured: {text:?}")))?;
        let all = touched.fault_ns.iter();
        let range_ns = all.fold([f64::INFINITY, 0.0], |[least, most], ns| [ns.min(least), ns.max(most)]);
        let out_ns = (touched.crowded_ns - touched.fresh_ns).max(0.0);
        let fault_ns = median(&mut touched.fault_ns);
        let scanned_per_out = counts.scanned as f64 / counts.outs.max(1) as f64;
        Ok((Touches { threads, fault_ns, range_ns, out_ns, scanned_per_out }, counts.compression))
    };
    let (alone, compression) = touches(1)?;
    let together = if threads > 1 { Some(touches(threads)?.0) } else { None };
    Ok(FaultCost { alone, together, compression })
}

/// Writes pages to a file without a name, which only this process and its children can open, because the pages may contain secrets of the
/// program.
fn without_name(folder: &RunFolder, contents: &[u8]) -> std::io::Result<File> {
    let path = folder.path("pages");
    let mut file =
        File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(contents)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_follows_how_many_faults_overlap() {
        let touches = |threads, ns| Touches {
            threads,
            fault_ns: ns,
            range_ns: [ns - 1.0, ns + 3.0],
            out_ns: ns / 2.0,
            scanned_per_out: 1.5,
        };
        let cost = FaultCost { alone: touches(1, 20.0), together: Some(touches(4, 50.0)), compression: None };
        for (overlap, ns) in [(0.7, 20.0), (1.0, 20.0), (1.5, 25.0), (2.0, 30.0), (4.0, 50.0), (9.0, 50.0)] {
            let at = cost.at(overlap);
            assert_eq!((at.fault_ns, at.range_ns, at.out_ns), (ns, [ns - 1.0, ns + 3.0], ns / 2.0));
        }
        assert_eq!(FaultCost { together: None, ..cost.clone() }.at(3.0), cost.alone);
    }
}
