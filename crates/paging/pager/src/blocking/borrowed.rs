//! Borrowed memory: memory of a process that ran before `unrack` did and that continues as before when `unrack` ends, however it ends.
//!
//! Every change to the program can be undone: its system calls are not filtered, and the kernel reports its forks ([`super::births`]). When
//! `unrack` asks for the memory, or was killed, the pager puts every page back and ends, and frees all its memory. Only its code stays
//! until `unrack` unmaps it.

use super::life::{FEATURES, end_before_filter, start_main};
use super::pager::{EndOfService, Pager};
use crate::attached::{self, control};
use crate::control::{ControlHead, ProcessSlot};
use crate::handed::{self, Handed};
use crate::helper;
use crate::memory::Memory;
use crate::owner::RunOwner;
use crate::sys::{self, FEATURE_EVENT_FORK};
use crate::{bare_thread, baseline, reserved_region};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Features that `unrack` has to request for the userfaultfd of [`handed::receive`].
pub const FEATURES_TO_BORROW: u64 = FEATURES | FEATURE_EVENT_FORK;

/// True if the program may use huge pages again when its memory is given back.
static MAY_BE_HUGE: AtomicBool = AtomicBool::new(false);

/// Starts the pager of this process, with the files of [`handed::receive`].
///
/// # Errors
/// `ENOMEM` if the address space has no room for the pager's memory; otherwise the errors of [`super::start`]. After an error, the process
/// is as before.
///
/// # Safety
/// Called once, after `receive` succeeded.
pub unsafe fn start_to_borrow() -> Result<(), Errno> {
    let are_refused = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(true);
    MAY_BE_HUGE.store(!are_refused, Relaxed);
    // SAFETY: the caller guarantees that `receive` succeeded.
    let started = reserved_region::reserve().and_then(|()| start_with(unsafe { handed::control() }));
    if started.is_err() {
        // SAFETY: no pager has begun.
        unsafe {
            attached::detach();
            reserved_region::release();
        }
    }
    started
}

fn start_with(control: BorrowedFd) -> Result<(), Errno> {
    let control = attached::attach_to(control)?;
    attached::keep_from_children();
    reserved_region::keep_from_children();
    baseline::count_all();
    start_main(control, borrower_main)
}

extern "C" fn borrower_main(slot: *mut c_void) -> c_int {
    sys::close_all_files_but(&mut handed::numbers());
    let control = control().expect("attached before");
    let slot = &control.slots[slot as usize];
    // SAFETY: only this thread uses the descriptors.
    let Handed { control: locked, uffd, maps, statm, pagemap } = unsafe { handed::take() };
    let memory = Memory::of(uffd, (maps, statm, pagemap));
    let owner = RunOwner::new(Some(locked));
    match memory.and_then(|memory| Pager::new(control, slot, memory, (owner, true))) {
        Ok(pager) => {
            sys::refuse_huge_pages();
            match pager.run() {
                EndOfService::Recalled => leave(control, slot),
                EndOfService::Filter => end_before_filter(control, slot),
            }
        }
        Err(_) => {
            control.fail("cannot start the pager: userfaultfd is not usable in this process");
            leave(control, slot)
        }
    }
}

/// Ends the pager's threads and frees all their memory, which no longer contains anything of the program.
fn leave(control: &ControlHead, slot: &ProcessSlot) -> ! {
    helper::end();
    if MAY_BE_HUGE.load(Relaxed) {
        let _ = rustix::thread::disable_transparent_huge_pages(false);
    }
    control.free(slot, slot.pid.load(Relaxed));
    // SAFETY: this is the last thread that uses the control file or the reserved region.
    unsafe {
        attached::detach();
        bare_thread::end_with_memory(reserved_region::heap(), reserved_region::LEN)
    }
}
