//! File descriptors of the pager in fast mode. They are in the program's table of files, but the program can neither close nor replace
//! them.

use super::outcome::CallEffect;
use super::raw::{self, Args};
use crate::carried::CarriedFiles;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use rustix::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;

/// Lowest number of the pager's descriptors, if the limit on descriptors allows it. The number is high because programs use low ones.
const HIGH: u64 = 1000;
/// First of the pager's descriptors, which have consecutive numbers.
static FIRST: AtomicI32 = AtomicI32::new(i32::MAX);
/// Number of the pager's descriptors.
static COUNT: AtomicI32 = AtomicI32::new(0);

/// The device for userfaultfds and the folder `/proc`, which stay open across forks; -1: not open.
static LASTING: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
/// Number of the pager's first descriptors, which are reserved for the files in `LASTING`.
static LASTING_COUNT: AtomicI32 = AtomicI32::new(0);

/// Moves a descriptor of the pager to a number that the program does not expect to be in use.
pub(super) fn hide(file: OwnedFd) -> Result<OwnedFd, Errno> {
    const MOST: u64 = 16;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let lowest = match COUNT.load(Relaxed) {
        0 => HIGH.min(limit.saturating_sub(MOST)) as i32,
        count => FIRST.load(Relaxed) + count,
    };
    let hidden = rustix::io::fcntl_dupfd_cloexec(&file, lowest)?;
    match COUNT.fetch_add(1, Relaxed) {
        0 => FIRST.store(hidden.as_raw_fd(), Relaxed),
        // If the program inherited a descriptor that lies between the pager's, that descriptor is protected as well.
        _ => COUNT.store(hidden.as_raw_fd() + 1 - FIRST.load(Relaxed), Relaxed),
    }
    Ok(hidden)
}

/// Opens, once, the files that children of this process may have no right or no way to open.
pub(super) fn keep_over_forks() {
    if LASTING_COUNT.load(Relaxed) > 0 {
        return;
    }
    let files = [crate::sys::open_device(), crate::carried::open_proc()];
    for (number, file) in LASTING.iter().zip(files) {
        // A file that cannot be opened now is tried again when it is needed.
        if let Ok(file) = file.and_then(hide) {
            number.store(file.into_raw_fd(), Relaxed);
        }
    }
    LASTING_COUNT.store(COUNT.load(Relaxed), Relaxed);
}

/// Returns the device and the folder `/proc`, which stay open.
pub(super) fn kept() -> ManuallyDrop<CarriedFiles> {
    let [device, proc] = LASTING.each_ref().map(|number| {
        let number = number.load(Relaxed);
        // SAFETY: opened by `keep_over_forks`, and never closed.
        (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
    });
    ManuallyDrop::new(CarriedFiles::of(device, proc))
}

/// Closes the parent's descriptors in the child of a fork, except those that stay open across forks.
pub(super) fn close_all() {
    let lasting = LASTING_COUNT.load(Relaxed);
    for number in ours().skip(lasting as usize) {
        // SAFETY: a descriptor of the pager whose user was dropped at the fork.
        unsafe { raw::call(libc::SYS_close as usize, [number, 0, 0, 0, 0, 0]) };
    }
    COUNT.store(lasting, Relaxed);
    if lasting == 0 {
        FIRST.store(i32::MAX, Relaxed);
    }
}

fn ours() -> core::ops::Range<usize> {
    let first = FIRST.load(Relaxed) as usize;
    first..first + COUNT.load(Relaxed) as usize
}

/// Handles calls that would close or copy a descriptor of the pager: they fail, because the program must see the descriptor as closed.
/// Returns `None` for other calls.
pub(super) fn outcome(number: i64, args: Args) -> Option<CallEffect> {
    let is_ours = |n: usize| ours().contains(&(args[n] as u32 as usize));
    let refused = match number {
        libc::SYS_close => is_ours(0),
        libc::SYS_dup2 | libc::SYS_dup3 => is_ours(0) || is_ours(1),
        libc::SYS_close_range => return close_range(args),
        _ => return None,
    };
    Some(if refused { CallEffect::Made(raw::error(Errno::BADF)) } else { CallEffect::GoOn(args) })
}

fn close_range(args: Args) -> Option<CallEffect> {
    let ([first, last, ..], ours) = (args, ours());
    let (first, last) = (first as u32 as usize, last as u32 as usize);
    if first > last || last < ours.start || first >= ours.end {
        return Some(CallEffect::GoOn(args));
    }
    let mut result = 0;
    for (from, to) in [(first, ours.start.saturating_sub(1)), (first.max(ours.end), last)] {
        if from <= to && !ours.contains(&from) && result == 0 {
            // SAFETY: the program's own call, without the pager's descriptors.
            result = unsafe { raw::call(libc::SYS_close_range as usize, [from, to, args[2], 0, 0, 0]) };
        }
    }
    Some(CallEffect::Made(result))
}
