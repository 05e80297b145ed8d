//! The pager thread: its start and its main loop.
//!
//! It is made by `clone` directly, not by the threads library: for the library the program stays single-threaded,
//! and keeps its fast paths and its thread count. It shares the address space but not the table of open files:
//! the program cannot see, close or inherit the pager's descriptors, nor does the pager keep any of the program's
//! open.

use crate::baseline::{self, Baseline};
use crate::control::{Control, MAGIC, Slot};
use crate::link::Delays;
use crate::owner::Owner;
use crate::pager::{Pager, Parts, ProcFiles};
use crate::spool::Spool;
use crate::sys::{
    FEATURE_EVENT_REMAP, FEATURE_EVENT_REMOVE, FEATURE_EVENT_UNMAP, FEATURE_MOVE, FEATURE_THREAD_ID, PAGE,
    Uffd, now_ns,
};
use crate::{den, gate, heap, pins};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

/// Features of userfaultfd that the kernel must offer.
pub const FEATURES: u64 =
    FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP | FEATURE_THREAD_ID | FEATURE_MOVE;

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(std::ptr::null_mut());
/// Path of the control file, beside which spool files go, with a trailing NUL; leaked, since it must outlive
/// every fork.
static PATH: AtomicPtr<[u8; LONGEST_PATH]> = AtomicPtr::new(std::ptr::null_mut());
const LONGEST_PATH: usize = 512;
const SPOOL_NAME: &[u8] = b"spool-00000000";

/// Waits in ns below which the thread spins: a sleeping core takes too long to wake.
const SPIN_NS: u64 = 60_000;
const SHORTEST_TICK_NS: u64 = 1_000_000;
const LONGEST_TICK_NS: u64 = 50_000_000;
/// Least time in ns in which a program touches a new page.
const FASTEST_TOUCH_NS: u64 = 400;

/// Returns the control segment of this process, if it runs under `unrack run`.
pub fn control() -> Option<&'static Control> {
    // SAFETY: set once by `attach` to a mapping that is never removed.
    unsafe { CONTROL.load(Relaxed).as_ref() }
}

/// Maps the control file. The spool files go to the same folder.
pub fn attach(path: &CStr) -> Result<&'static Control, Errno> {
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let len = rustix::fs::fstat(&file)?.st_size as usize;
    if len < size_of::<Control>() {
        return Err(Errno::INVAL);
    }
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: a new mapping, as long as the file, which `unrack` does not shrink.
    let at = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), len, protection, rustix::mm::MapFlags::SHARED, &file, 0)?
    };
    let control = at as *mut Control;
    // SAFETY: page-aligned, long enough, and atomics may hold anything.
    let checked = unsafe { &*control };
    if checked.magic.load(Relaxed) != MAGIC {
        return Err(Errno::INVAL);
    }
    let samples = checked.settings.samples.load(Relaxed) as usize;
    if samples.checked_mul(8).is_none_or(|bytes| bytes > len - size_of::<Control>()) {
        return Err(Errno::INVAL);
    }
    CONTROL.store(control, Relaxed);
    remember_path(path);
    Ok(checked)
}

fn remember_path(path: &CStr) {
    let path = path.to_bytes();
    let mut kept = Box::new([0u8; LONGEST_PATH]);
    let len = path.len().min(kept.len() - SPOOL_NAME.len() - 1);
    kept[..len].copy_from_slice(&path[..len]);
    PATH.store(Box::into_raw(kept), Relaxed);
}

fn control_path() -> Option<[u8; LONGEST_PATH]> {
    // SAFETY: leaked by `remember_path`.
    unsafe { PATH.load(Relaxed).as_ref() }.copied()
}

fn spool_path(process: u32) -> Option<[u8; LONGEST_PATH]> {
    let mut path = control_path()?;
    let folder = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    path[folder..].fill(0);
    let name = &mut path[folder..][..SPOOL_NAME.len()];
    name.copy_from_slice(SPOOL_NAME);
    for (power, digit) in name.iter_mut().rev().take(8).enumerate() {
        *digit = b'0' + (process / 10u32.pow(power as u32) % 10) as u8;
    }
    Some(path)
}

/// Opens the control file, to check its lock. Returns `None` if there is no lock, or if the file cannot be
/// opened, as by a process that changed its root or its user.
pub(crate) fn open_locked(control: &Control) -> Option<OwnedFd> {
    if control.settings.is_locked.load(Relaxed) == 0 {
        return None;
    }
    let path = control_path()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Starts the pager of this process. Call from the program's first thread, before `main`.
pub fn start(control: &'static Control) -> Result<(), Errno> {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let slot = control.take_slot(pid).ok_or(Errno::NOSPC)?;
    pins::pin_this_thread();
    baseline::measure();
    with_signals_blocked(|| {
        let stack = den::stack_top(0) as *mut c_void;
        let flags =
            libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
        // SAFETY: `pager_main` never returns, uses only its own stack and memory, and touches no thread-local
        // storage.
        match unsafe { libc::clone(pager_main, stack, flags, slot as *mut c_void) } {
            -1 => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    })
}

pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: plain sets on our stack. Signals 32 and 33 belong to the C library, which cannot send them to a
    // thread that it does not know.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = f();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// Forgets the parent's pager in the child of a fork, and starts an own one.
///
/// # Safety
/// Called in the child of a fork that `gate::close` preceded, with its one thread.
pub unsafe fn start_in_child() {
    let Some(control) = control() else { return };
    gate::reset();
    crate::helper::reset();
    // Copied before the heap is reset.
    let kept = control_path();
    // SAFETY: the pager that used them is not in this process, and its pages were all put back.
    unsafe {
        heap::reset();
        den::forget_arena();
    }
    if let Some(kept) = kept {
        PATH.store(Box::into_raw(Box::new(kept)), Relaxed);
    }
    if start(control).is_err() {
        gate::die(control, "cannot start the pager in a forked process: no slot or thread is free");
    }
}

extern "C" fn pager_main(slot: *mut c_void) -> c_int {
    crate::sys::close_all_files();
    let control = control().expect("attached before");
    match Pager::open(control, &control.slots[slot as usize]) {
        Ok(pager) => pager.run(),
        Err(Errno::PERM) => gate::die(control, "no permission to use userfaultfd"),
        Err(Errno::INVAL) => {
            gate::die(control, "this kernel's userfaultfd lacks UFFDIO_MOVE: Linux 6.8 or later is needed")
        }
        Err(_) => gate::die(control, "cannot start the pager: /proc or userfaultfd is not usable"),
    }
}

impl Pager {
    fn open(control: &'static Control, slot: &'static Slot) -> Result<Pager, Errno> {
        let open = |path: &CStr| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let files = ProcFiles {
            maps: open(c"/proc/self/maps")?,
            statm: open(c"/proc/self/statm")?,
            pagemap: open(c"/proc/self/pagemap")?,
        };
        let uffd = Uffd::open(FEATURES)?;
        uffd.register(den::doorbell(), den::DOORBELL_BYTES)?;
        // Destinations of moves. The arena's unopened part may be registered as well.
        uffd.register(den::landing(0), den::LANDINGS * PAGE)?;
        uffd.register(den::arena(), den::ARENA_SLOTS * PAGE)?;
        let process = slot.process.load(Relaxed);
        crate::control::count(&control.counts.processes, 1);
        Ok(Pager::new(Parts {
            control,
            slot,
            uffd,
            files,
            delays: Delays::new(control, samples(control), process),
            spool: open_spool(control, process)?,
            owner: Owner::new(open_locked(control)),
            here: stay_on_this_core(),
            baseline: Baseline::measured(),
        }))
    }

    /// Serves faults for ever.
    fn run(mut self) -> ! {
        let mut next_tick = now_ns();
        loop {
            if self.read_events().is_err() {
                gate::die(self.control, "the userfaultfd cannot be read any more");
            }
            self.handle_events();
            self.progress();
            self.finish_fetches();
            if now_ns() >= next_tick {
                next_tick = now_ns() + self.tick();
            }
            self.wait(next_tick);
        }
    }

    /// Waits for an event, the next arrival or the next tick.
    fn wait(&mut self, next_tick: u64) {
        let until = self.next_due_ns().map_or(next_tick, |due| due.min(next_tick));
        let now = now_ns();
        let spin = self.next_due_ns().is_some_and(|due| due < now + SPIN_NS);
        if spin || until <= now {
            return;
        }
        let margin = if self.next_due_ns().is_some() { SPIN_NS / 2 } else { 0 };
        let nap = (until - now).saturating_sub(margin);
        let timeout =
            Timespec { tv_sec: (nap / 1_000_000_000) as i64, tv_nsec: (nap % 1_000_000_000) as i64 };
        let uffd = self.uffd.fd();
        let faults = PollFd::from_borrowed_fd(uffd, PollFlags::IN);
        // An error means a signal or nothing: the loop checks by itself.
        let _ = match &self.node {
            Some(node) => rustix::event::poll(&mut [faults, node.poll()], Some(&timeout)),
            None => rustix::event::poll(&mut [faults], Some(&timeout)),
        };
    }

    /// Does the periodic work. Returns the time in ns until the next tick.
    fn tick(&mut self) -> u64 {
        self.sync_local();
        self.recycle();
        self.flush();
        self.keep_watch();
        let limit = self.control.settings.limit_pages.load(Relaxed);
        let total = self.local + self.others;
        if total > limit {
            if self.others > 0 {
                self.control.bury();
            }
            self.retry_stuck();
            self.reclaim();
            return SHORTEST_TICK_NS;
        }
        ((limit - total) / 2 * FASTEST_TOUCH_NS).clamp(SHORTEST_TICK_NS, LONGEST_TICK_NS)
    }
}

pub(crate) fn samples(control: &'static Control) -> &'static [AtomicU64] {
    let len = control.settings.samples.load(Relaxed) as usize;
    // SAFETY: `attach` checked that the file holds them, right behind the head.
    unsafe { std::slice::from_raw_parts((control as *const Control).add(1).cast(), len) }
}

pub(crate) fn open_spool(control: &Control, process: u32) -> Result<Option<Spool>, Errno> {
    if control.settings.capture.load(Relaxed) == 0 {
        return Ok(None);
    }
    let path = spool_path(process).ok_or(Errno::INVAL)?;
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    Spool::create(path).map(Some)
}

/// Binds the pager to its current core, which is its program's: waking another core takes five times as long. It
/// keeps its program's priority: with precedence, the scheduler lets the woken thread wait, and a fetch takes
/// twice as long (Linux 6.18). Asks for precise timers; goes on without if that is not permitted.
fn stay_on_this_core() -> usize {
    let here = rustix::thread::sched_getcpu();
    let mut only_here = rustix::thread::CpuSet::new();
    only_here.set(here);
    let _ = rustix::thread::sched_setaffinity(None, &only_here);
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    here
}
