//! Moves of pages while the kernel has reason to retry.

use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use unrack_pager::moves;
use unrack_pager::pagemap::is_filled;
use unrack_pager::sys::{FEATURE_MOVE, PAGE, Uffd};
use unrack_testing::{TestRequirement, skip};

/// Bytes of memory that one page table maps.
const TABLE: usize = 2 << 20;
const PAGES: usize = TABLE / PAGE;
const RUN: usize = 8;
const ROUNDS: usize = 20_000;

/// Maps memory whose page table maps nothing else.
fn map() -> usize {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice, and advice that changes no contents.
    unsafe {
        let at = rustix::mm::mmap_anonymous(std::ptr::null_mut(), 3 * TABLE, protection, flags).unwrap();
        rustix::mm::madvise(at, 3 * TABLE, Advice::LinuxNoHugepage).unwrap();
        (at as usize).next_multiple_of(TABLE)
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Moves pages while their destination's page table comes and goes, which makes the kernel retry. Pages reported
/// as moved are no longer where they were.
#[test]
fn what_is_said_to_have_moved_has() {
    let uffd = match Uffd::open(FEATURE_MOVE) {
        Ok(uffd) => uffd,
        Err(why) => {
            return skip(TestRequirement::Userfaultfd, format!("userfaultfd with UFFDIO_MOVE: {why}"));
        }
    };
    let pagemap =
        rustix::fs::open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let (den, program) = (map(), map());
    uffd.register(program, TABLE).unwrap();

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                // SAFETY: nobody reads the contents.
                unsafe { rustix::mm::madvise(program as *mut c_void, TABLE, Advice::LinuxDontNeed) }.unwrap();
            }
        });
        let _stop = Stop(&stop);
        for round in 0..ROUNDS {
            let at = round * RUN % PAGES * PAGE;
            let (near, far) = (den + at, program + at);
            for n in 0..RUN {
                // SAFETY: ours.
                unsafe { ((near + n * PAGE) as *mut u8).write_volatile(1) };
            }
            let (moved, result) = moves::give(&uffd, pagemap.as_fd(), far, near, RUN * PAGE, false);
            // Moved without being counted, and dropped before the kernel tried again: their place is unknown, but
            // no page is believed to be where it is not.
            if result == Err(Errno::NOENT) {
                continue;
            }
            let left =
                (0..RUN).take_while(|n| is_filled(pagemap.as_fd(), near + n * PAGE) == Some(false)).count();
            assert_eq!(moved, left * PAGE, "{result:?}");
            assert_eq!(result.is_ok(), left == RUN);
        }
    });
}
