//! Swap device and memory cgroup together, and a run in them.

use crate::device::{OpenDevice, SwapDevice};
use crate::error::SwapError;
use crate::group::{MemoryGroup, field};
use crate::sample::PageSample;
use crate::undo::Undo;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use unrack_units::Bytes;

/// Interval at which the limit is adapted to the group's memory that is not anonymous.
const PACE: Duration = Duration::from_millis(5);
/// Interval at which the group's threads are checked.
const THREADS_PACE: Duration = Duration::from_millis(20);
/// Function of the kernel in which threads wait until changed pages of files are written.
const THROTTLE: &str = "reclaim_throttle";
/// Minimum change of the limit, in bytes.
const STEP: u64 = 64 * unrack_basis::PAGE as u64;
/// Step in bytes by which the limit rises when a group can neither continue nor swap more.
const RELIEF: u64 = 1 << 20;

/// A swap device and a memory cgroup, which exist until this value is dropped.
#[derive(Debug)]
pub struct KernelSwap {
    device: OpenDevice,
    group: MemoryGroup,
    _undo: Undo,
}

/// Counts of one run under swap.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SwapCounts {
    /// Number of pages swapped in.
    pub ins: u64,
    /// Number of pages swapped out.
    pub outs: u64,
    /// Number of pages that the machine examined to find some to swap out; recently used ones stay. 0 if the kernel has no such count.
    pub scanned: u64,
    /// Peak of anonymous memory, in bytes.
    pub peak_anonymous: u64,
    /// Peak of the group's memory that is not anonymous, in bytes.
    pub peak_other: u64,
    /// Maximum amount in bytes by which the limit was raised because the group could neither continue nor swap more.
    pub relief: u64,
    /// Time in ns in which a thread waited until changed pages of files were written. With version 1 of cgroups, a thread waits 0.1 s each
    /// time that reclaim finds only such pages (`reclaim_throttle`).
    pub throttled_ns: u64,
    /// Ratio of the uncompressed to the compressed size of the data in the device at the time when it held most; `None` if the device does
    /// not compress.
    pub compression: Option<f64>,
}

/// Checks all requirements that can be checked without changing the machine: the user, and a memory cgroup.
///
/// # Errors
/// [`SwapError::Lacking`]; the text states the remedy.
pub fn check_machine() -> Result<(), SwapError> {
    check_user()?;
    MemoryGroup::check()
}

fn check_user() -> Result<(), SwapError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(SwapError::Lacking("only root can make swap and cgroups: run it with sudo".into())),
    }
}

impl KernelSwap {
    /// Makes a swap device of `size`, and a memory cgroup.
    ///
    /// # Errors
    /// [`SwapError::Lacking`] if this machine does not support it or this user may not do it.
    pub fn open(kind: &SwapDevice, size: Bytes, mut undo: Undo) -> Result<KernelSwap, SwapError> {
        check_user()?;
        let device = OpenDevice::open(kind, size, &mut undo)?;
        let group = MemoryGroup::make(&mut undo)?;
        Ok(KernelSwap { device, group, _undo: undo })
    }

    /// Returns the command that runs `words` in the group.
    pub fn command(&self, words: &[OsString]) -> Vec<OsString> {
        self.group.command(words)
    }

    /// Calls `run`, which runs commands of the group, while the group may have at most `local` anonymous memory. Returns the result of
    /// `run` and the counts.
    ///
    /// # Errors
    /// [`SwapError::Failed`] if the group cannot be limited.
    pub fn run<T>(&self, local: Bytes, run: impl FnOnce() -> T) -> Result<(T, SwapCounts), SwapError> {
        let before = self.swapped();
        self.group.limit(Some(local.get() + self.group.memory()?.other + STEP))?;
        let is_over = AtomicBool::new(false);
        let (done, peaks) = std::thread::scope(|scope| {
            let keeper = scope.spawn(|| self.keep(local.get(), &is_over));
            let done = run();
            is_over.store(true, Relaxed);
            (done, keeper.join().expect("the keeper does not panic"))
        });
        let after = self.swapped();
        self.group.limit(None)?;
        let [ins, outs, scanned] = std::array::from_fn(|n| after[n].saturating_sub(before[n]));
        Ok((done, SwapCounts { ins, outs, scanned, ..peaks? }))
    }

    /// Calls `run`, which runs commands of the group, without a limit. Returns the result of `run` and a sample of the contents of the
    /// commands' pages.
    ///
    /// # Errors
    /// [`SwapError::Failed`] if the group cannot be read.
    pub fn sample<T>(&self, run: impl FnOnce() -> T) -> Result<(T, Vec<u8>), SwapError> {
        let is_over = AtomicBool::new(false);
        let (done, sample) = std::thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut sample = PageSample::new();
                while !is_over.load(Relaxed) {
                    self.group.processes()?.into_iter().for_each(|pid| sample.look(pid));
                    std::thread::sleep(PACE);
                }
                Ok(sample)
            });
            let done = run();
            is_over.store(true, Relaxed);
            (done, sampler.join().expect("the sampler does not panic"))
        });
        Ok((done, sample?.into_bytes()))
    }

    /// Keeps the limit at `local` plus the group's memory that is not anonymous, until `is_over`.
    fn keep(&self, local: u64, is_over: &AtomicBool) -> Result<SwapCounts, SwapError> {
        let (mut seen, mut set, mut most_stored, mut relief) = (SwapCounts::default(), 0u64, 0, 0);
        let mut looked = Instant::now();
        while !is_over.load(Relaxed) {
            let since = looked.elapsed();
            if since >= THREADS_PACE {
                looked = Instant::now();
                if self.group.waits_in(THROTTLE)? {
                    seen.throttled_ns += since.as_nanos() as u64;
                }
            }
            let memory = self.group.memory()?;
            seen.peak_anonymous = seen.peak_anonymous.max(memory.anonymous);
            seen.peak_other = seen.peak_other.max(memory.other);
            relief = if self.group.is_out_of_memory() { relief + RELIEF } else { 0 };
            seen.relief = seen.relief.max(relief);
            let wanted = local + memory.other + relief;
            if wanted.abs_diff(set) >= STEP {
                self.group.limit(Some(wanted))?;
                set = wanted;
            }
            if let Some((original, compressed)) = self.device.contents().filter(|(it, _)| *it > most_stored) {
                most_stored = original;
                seen.compression = Some(original as f64 / compressed.max(1) as f64);
            }
            std::thread::sleep(PACE);
        }
        Ok(seen)
    }

    /// Returns the number of pages swapped in, swapped out, and examined so far. The numbers are the group's, or those of the whole machine
    /// if the kernel does not count them for the group.
    fn swapped(&self) -> [u64; 3] {
        let of_all = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let count = |key: &str| self.group.count(key).or(field(&of_all, key)).unwrap_or(0);
        // Pages of zeros never reach the device.
        let ins = count("pswpin") + count("swpin_zero");
        let outs = count("pswpout") + count("swpout_zero");
        [ins, outs, field(&of_all, "pgscan_anon").unwrap_or(0)]
    }
}
