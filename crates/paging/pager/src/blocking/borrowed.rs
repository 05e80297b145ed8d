//! Borrowed memory: of a process that was there before, and goes on as it was when `unrack` ends, however that ends.
//!
//! Nothing of the program is changed that could not be changed back: its system calls are not filtered, and its forks are
//! reported by the kernel ([`super::births`]). When `unrack` asks for it, or was killed, the pager puts every page back, and
//! ends with all its memory. Only its code stays, until `unrack` unmaps that.

use super::helper;
use super::life::{FEATURES, end_before_filter, start_main};
use super::pager::{EndOfService, Pager};
use crate::attached::{self, control};
use crate::control::{ControlHead, ProcessSlot};
use crate::handed::{self, Handed};
use crate::memory::Memory;
use crate::owner::Owner;
use crate::sys::{self, FEATURE_EVENT_FORK};
use crate::{bare_thread, baseline, den};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Features that `unrack` has to ask for at the userfaultfd of [`handed::receive`].
pub const FEATURES_TO_BORROW: u64 = FEATURES | FEATURE_EVENT_FORK;

/// The program may have huge pages again when its memory is given back.
static MAY_BE_HUGE: AtomicBool = AtomicBool::new(false);

/// Starts the pager of this process, with the files of [`handed::receive`].
///
/// # Errors
/// `ENOMEM` if the address space has no room for the pager's memory, else as for [`super::start`]. All is as before then.
///
/// # Safety
/// Called once, after `receive` succeeded.
pub unsafe fn start_to_borrow() -> Result<(), Errno> {
    let are_refused = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(true);
    MAY_BE_HUGE.store(!are_refused, Relaxed);
    // SAFETY: as the caller says.
    let started = den::reserve().and_then(|()| start_with(unsafe { handed::control() }));
    if started.is_err() {
        // SAFETY: no pager has begun.
        unsafe {
            attached::detach();
            den::release();
        }
    }
    started
}

fn start_with(control: BorrowedFd) -> Result<(), Errno> {
    let control = attached::attach_to(control)?;
    attached::keep_from_children();
    den::keep_from_children();
    baseline::count_all();
    start_main(control, borrower_main)
}

extern "C" fn borrower_main(slot: *mut c_void) -> c_int {
    sys::close_all_files_but(&mut handed::numbers());
    let control = control().expect("attached before");
    let slot = &control.slots[slot as usize];
    // SAFETY: this thread has them to itself.
    let Handed { control: locked, uffd, maps, statm, pagemap } = unsafe { handed::take() };
    let memory = Memory::of(uffd, (maps, statm, pagemap));
    let owner = Owner::new(Some(locked));
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

/// Ends the pager's threads and all their memory. Nothing of the program's is in it.
fn leave(control: &ControlHead, slot: &ProcessSlot) -> ! {
    helper::end();
    if MAY_BE_HUGE.load(Relaxed) {
        let _ = rustix::thread::disable_transparent_huge_pages(false);
    }
    control.free(slot, slot.pid.load(Relaxed));
    // SAFETY: this is the last thread that uses either.
    unsafe {
        attached::detach();
        bare_thread::end_with_memory(den::heap(), den::LEN)
    }
}
