//! The pager thread: its start and its end. It is a bare thread with a separate table of open files.

use super::pager::{EndOfService, Pager};
use crate::attached::{control, keep_path_over};
use crate::bare_thread::{self, Main, with_signals_blocked};
use crate::baseline;
use crate::carried::{self, CarriedFiles};
use crate::control::{ControlHead, ProcessSlot, Unpaged, count};
use crate::memory::Memory;
use crate::owner::RunOwner;
use crate::sys::{
    self, FEATURE_EVENT_REMAP, FEATURE_EVENT_REMOVE, FEATURE_EVENT_UNMAP, FEATURE_MOVE, FEATURE_THREAD_ID,
};
use crate::{door, gate, heap, helper, pagemap, reserved_region};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::io::Errno;
use rustix::thread::futex;

/// Features of userfaultfd that the kernel must offer if pages are copied ([`crate::copies`]).
pub const FEATURES_TO_COPY: u64 =
    FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP | FEATURE_THREAD_ID;
/// Features of userfaultfd that the kernel must offer if pages are moved.
pub const FEATURES: u64 = FEATURES_TO_COPY | FEATURE_MOVE;

/// Set to 1 when the pager of this process serves faults, or when the process can have no pager.
static SERVES: AtomicU32 = AtomicU32::new(0);
/// Number of the pager's thread.
static PAGER: AtomicU32 = AtomicU32::new(0);

/// Starts the pager of this process. The calling thread's control block must be pinned ([`crate::pins`]).
///
/// # Errors
/// `ENOSPC` if other processes use all slots of the control file, `EAGAIN` if the kernel starts no thread.
pub fn start(control: &'static ControlHead) -> Result<(), Errno> {
    choose_scans(control);
    baseline::measure();
    start_thread(control)
}

/// Starts the pager of this process like [`start`], but long after the program began.
///
/// # Errors
/// The same as for [`start`].
pub fn start_late(control: &'static ControlHead) -> Result<(), Errno> {
    choose_scans(control);
    baseline::count_all();
    start_thread(control)
}

/// A kernel that cannot move pages cannot scan for them either. Tests that have pages copied also test scans without that support.
fn choose_scans(control: &ControlHead) {
    if control.settings.copies.load(Relaxed) != 0 {
        pagemap::only_read();
    }
}

/// Waits until the pager that [`start`] started serves faults, but at most one minute. Without this wait, a program that runs for a tenth
/// of a second could end on a busy machine before its pager begins, with all of its memory local.
pub fn wait_for_start() {
    let minute = sys::timespec(60_000_000_000);
    while SERVES.load(Acquire) == 0 {
        if futex::wait(&SERVES, futex::Flags::PRIVATE, 0, Some(&minute)) == Err(Errno::TIMEDOUT) {
            return;
        }
    }
}

fn start_thread(control: &'static ControlHead) -> Result<(), Errno> {
    start_main(control, pager_main)
}

/// Starts a pager's thread and passes it the number of a slot of the control file.
pub(super) fn start_main(control: &'static ControlHead, main: Main) -> Result<(), Errno> {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let slot = control.take_slot(pid).ok_or(Errno::NOSPC)?;
    // SAFETY: a pager's thread never returns, uses only its own stack, the first, and its own memory, and touches no thread-local storage.
    with_signals_blocked(|| unsafe { bare_thread::start(main, 0, false, slot) })
}

/// Drops the parent's pager in the child of a fork, and starts a new one. If the child cannot have a pager, it continues with all of its
/// memory local, and is counted as such.
///
/// # Safety
/// Called in the child of a fork that `gate::close` preceded, in its only thread, whose control block is pinned.
pub unsafe fn start_in_child() {
    let Some(control) = control() else { return };
    gate::reset();
    helper::reset();
    if gate::is_filtered() {
        return gate::stay_local(control, Unpaged::Filter);
    }
    if gate::is_local() {
        return count(&control.counts.unpaged, 1);
    }
    // SAFETY: the pager that used this memory is not in this process, and all its pages were put back.
    keep_path_over(|| unsafe {
        heap::reset();
        reserved_region::forget_arena();
    });
    carried::give();
    let started = start(control);
    carried::close_given();
    carried::put_down();
    if started.is_err() {
        gate::stay_local(control, Unpaged::Limits);
    }
}

/// Makes the pager put all pages back and end, and returns when its threads have ended. This is necessary because the program is about to
/// filter the system calls of all threads of this process, and the filter would end the process for the calls of the pager's threads.
pub fn leave() {
    if control().is_none() || gate::is_local() {
        return;
    }
    gate::ask_to_leave();
    let threads = [PAGER.load(Acquire), helper::thread()];
    for thread in threads.into_iter().filter(|thread| *thread != 0) {
        while bare_thread::is_alive(thread) {
            rustix::thread::sched_yield();
        }
    }
}

/// Returns the number of threads in this process that belong to the pager.
pub fn threads() -> usize {
    1 + usize::from(helper::thread() != 0)
}

extern "C" fn pager_main(slot: *mut c_void) -> c_int {
    PAGER.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Release);
    sys::close_all_files_but(&mut CarriedFiles::numbers());
    door::guard_this_thread();
    let control = control().expect("attached before");
    let slot = &control.slots[slot as usize];
    // SAFETY: this thread has its own table of files, and no other thread of this process calls this.
    let kept = unsafe { CarriedFiles::take(control) };
    match open(control, slot, kept) {
        Ok(mut pager) => {
            // Only the first process connects now, because most processes that it starts never send a page.
            if slot.process.load(Relaxed) == 0 {
                pager.connect();
            }
            serves();
            match pager.run() {
                // Only borrowed memory is ever recalled.
                EndOfService::Filter | EndOfService::Recalled => end_before_filter(control, slot),
            }
        }
        // The machine was checked before the run. Therefore the program has given up a right or a resource, perhaps before this thread
        // began.
        Err(why) if slot.process.load(Relaxed) != 0 || !matches!(why, Errno::PERM | Errno::INVAL) => {
            control.free(slot, slot.pid.load(Relaxed));
            gate::stay_local(control, reason(why));
            serves();
            bare_thread::end()
        }
        Err(Errno::PERM) => gate::die(control, "no permission to use userfaultfd"),
        Err(_) => gate::die(control, "this kernel's userfaultfd lacks a feature that the pager needs"),
    }
}

/// Returns the reason why a process can have no pager. `why` is the error with which the start of the pager failed.
fn reason(why: Errno) -> Unpaged {
    match why {
        Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM | Errno::NOSPC => Unpaged::Limits,
        _ => Unpaged::Rights,
    }
}

fn serves() {
    SERVES.store(1, Release);
    let _ = futex::wake(&SERVES, futex::Flags::PRIVATE, 1);
}

fn open(
    control: &'static ControlHead,
    slot: &'static ProcessSlot,
    mut kept: CarriedFiles,
) -> Result<Pager, Errno> {
    let owner = RunOwner::new(kept.control());
    let features = match control.settings.copies.load(Relaxed) {
        0 => FEATURES,
        _ => FEATURES_TO_COPY,
    };
    let memory = Memory::open(features, &mut kept, Ok)?;
    // The descriptors stay open for children of this process as long as the pager lives.
    core::mem::forget(kept);
    Pager::new(control, slot, memory, (owner, false))
}

/// Ends the pager's thread and its helper. All pages are in the program, which continues without a pager. Threads that waited for a page
/// that was never touched were woken when the userfaultfd was closed, and the kernel serves their faults.
pub(super) fn end_before_filter(control: &ControlHead, slot: &ProcessSlot) -> ! {
    helper::end();
    control.free(slot, slot.pid.load(Relaxed));
    gate::stay_local(control, Unpaged::Filter);
    bare_thread::end()
}
