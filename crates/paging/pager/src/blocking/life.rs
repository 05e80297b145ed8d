//! The pager thread: its start and its main loop. It is a bare thread, with a table of open files of its own.

use super::pager::Pager;
use super::serve::Fault;
use crate::attached::{control, keep_path_over};
use crate::bare_thread::{self, Main, with_signals_blocked};
use crate::baseline;
use crate::carried::{self, Kept};
use crate::control::{ControlHead, ProcessSlot, Unpaged, count};
use crate::memory::Memory;
use crate::owner::Owner;
use crate::residency::SHORTEST_TICK_NS;
use crate::sys::{
    self, Event, FEATURE_EVENT_REMAP, FEATURE_EVENT_REMOVE, FEATURE_EVENT_UNMAP, FEATURE_MOVE,
    FEATURE_THREAD_ID, PAGE, now_ns,
};
use crate::{den, door, gate, heap};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::thread::futex;

/// Features of userfaultfd that the kernel must offer.
pub const FEATURES: u64 =
    FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP | FEATURE_THREAD_ID | FEATURE_MOVE;

/// Time in ns after a request to a memory node in which the thread does not sleep: it would wake after the answer.
const SPIN_NS: u64 = 60_000;

/// 1 when the pager of this process serves faults, or there is none.
static SERVES: AtomicU32 = AtomicU32::new(0);
/// The pager's thread.
static PAGER: AtomicU32 = AtomicU32::new(0);

/// Starts the pager of this process. The calling thread's control block must be pinned ([`crate::pins`]).
///
/// # Errors
/// `ENOSPC` if all slots of the control file are taken by processes, `EAGAIN` if the kernel starts no thread.
pub fn start(control: &'static ControlHead) -> Result<(), Errno> {
    baseline::measure();
    start_thread(control)
}

/// Starts the pager of this process as [`start`] does, long after its program began.
///
/// # Errors
/// As for [`start`].
pub fn start_late(control: &'static ControlHead) -> Result<(), Errno> {
    baseline::count_all();
    start_thread(control)
}

/// Waits until the pager that [`start`] started serves faults, for a minute at most. On a busy machine a program that runs for a
/// tenth of a second could otherwise end before its pager begins, with all of its memory local.
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

/// Starts this thread with the number of a slot of the control file.
pub(super) fn start_main(control: &'static ControlHead, main: Main) -> Result<(), Errno> {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let slot = control.take_slot(pid).ok_or(Errno::NOSPC)?;
    // SAFETY: a pager's thread never returns, uses only its own stack, the first, and its own memory, and touches no
    // thread-local storage.
    with_signals_blocked(|| unsafe { bare_thread::start(main, 0, false, slot) })
}

/// Forgets the parent's pager in the child of a fork, and starts an own one. Where there can be none, the child goes on
/// with all of its memory local, which is counted.
///
/// # Safety
/// Called in the child of a fork that `gate::close` preceded, with its one thread, whose control block is pinned.
pub unsafe fn start_in_child() {
    let Some(control) = control() else { return };
    gate::reset();
    super::helper::reset();
    if gate::is_filtered() {
        return gate::stay_local(control, Unpaged::Filter);
    }
    if gate::is_local() {
        return count(&control.counts.unpaged, 1);
    }
    // SAFETY: the pager that used them is not in this process, and its pages were all put back.
    keep_path_over(|| unsafe {
        heap::reset();
        den::forget_arena();
    });
    carried::give();
    let started = start(control);
    carried::close_given();
    carried::put_down();
    if started.is_err() {
        gate::stay_local(control, Unpaged::Limits);
    }
}

/// Has the pager put all pages back and end, and returns when its threads are gone: the program is about to filter the system
/// calls of all threads of this process, which would end it for those of the pager.
pub fn leave() {
    if control().is_none() || gate::is_local() {
        return;
    }
    gate::ask_to_leave();
    let threads = [PAGER.load(Acquire), super::helper::thread()];
    for thread in threads.into_iter().filter(|thread| *thread != 0) {
        while bare_thread::is_alive(thread) {
            rustix::thread::sched_yield();
        }
    }
}

/// Returns the number of threads in this process that are not the program's.
pub fn threads() -> usize {
    1 + usize::from(super::helper::thread() != 0)
}

extern "C" fn pager_main(slot: *mut c_void) -> c_int {
    PAGER.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Release);
    sys::close_all_files_but(&mut Kept::numbers());
    door::guard_this_thread();
    let control = control().expect("attached before");
    let slot = &control.slots[slot as usize];
    // SAFETY: this thread has its own table, and no other of this process calls this.
    let kept = unsafe { Kept::take(control) };
    match Pager::open(control, slot, kept) {
        Ok(mut pager) => {
            // Most programs that the first one starts never send a page.
            if pager.slot.process.load(Relaxed) == 0 {
                pager.connect();
            }
            serves();
            pager.run()
        }
        // The machine was checked: the program has given something up, perhaps before this thread began.
        Err(why) if slot.process.load(Relaxed) != 0 || !matches!(why, Errno::PERM | Errno::INVAL) => {
            control.free(slot, slot.pid.load(Relaxed));
            gate::stay_local(control, reason(why));
            serves();
            bare_thread::end()
        }
        Err(Errno::PERM) => gate::die(control, "no permission to use userfaultfd"),
        Err(_) => {
            gate::die(control, "this kernel's userfaultfd lacks UFFDIO_MOVE: Linux 6.8 or later is needed")
        }
    }
}

/// Returns the reason why a process can have no pager.
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

impl Pager {
    fn open(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        mut kept: Kept,
    ) -> Result<Pager, Errno> {
        let owner = Owner::new(kept.control());
        let memory = Memory::open(FEATURES, &mut kept, Ok)?;
        // They stay open for children of this process, as long as the pager lives.
        core::mem::forget(kept);
        Pager::with_memory(control, slot, memory, owner)
    }

    /// Makes the pager of this process, whose books are empty.
    pub(super) fn with_memory(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        memory: Memory,
        owner: Owner,
    ) -> Result<Pager, Errno> {
        memory.uffd.register(den::doorbell(), den::DOORBELL_BYTES)?;
        // Destinations of moves, as the arena.
        memory.uffd.register(den::landing(0), den::LANDINGS * PAGE)?;
        count(&control.counts.processes, 1);
        Pager::new(control, slot, memory, owner, stay_on_this_core())
    }

    /// Serves faults, for ever or until borrowed memory is to be given back.
    pub(super) fn run(mut self) -> ! {
        let mut next_tick = now_ns();
        loop {
            if self.is_recalled() {
                self.give_back();
            }
            if gate::is_to_leave() {
                self.leave();
            }
            self.handle_new_events();
            if gate::is_filtered() {
                self.answer_wishes();
            }
            self.progress();
            self.finish_fetches();
            if now_ns() >= next_tick {
                next_tick = now_ns() + self.tick();
            }
            self.wait(next_tick);
        }
    }

    /// Puts all pages back, and ends this thread. The program goes on without a pager.
    fn leave(mut self) -> ! {
        self.put_all_back();
        let (control, slot) = (self.control, self.slot);
        // Threads that wait for a page that was never touched are woken, and the kernel serves them.
        drop(self);
        super::helper::end();
        control.free(slot, slot.pid.load(Relaxed));
        gate::stay_local(control, Unpaged::Filter);
        bare_thread::end()
    }

    /// Reads events, and handles all.
    pub(super) fn handle_new_events(&mut self) {
        if self.read_events().is_err() {
            gate::die(self.control, "the userfaultfd cannot be read any more");
        }
        self.handle_events();
    }

    /// Handles all events read so far, changes of the address space first: they determine what a fault means.
    fn handle_events(&mut self) {
        let read_ns = now_ns();
        self.apply_changes();
        while let Some(event) = self.backlog.pop_front() {
            match event {
                Event::Fault { address, .. } if address == den::doorbell() => self.answer_doorbell(),
                Event::Fault { address, write, thread } => {
                    self.serve(Fault { address, write, thread, read_ns })
                }
                Event::Remap { .. } | Event::Remove { .. } | Event::Unmap { .. } | Event::Fork { .. } => {}
            }
        }
    }

    /// Waits for an event, the next arrival or the next tick.
    fn wait(&mut self, next_tick: u64) {
        let awaited = self.next_due_ns(true);
        let until = [awaited, self.next_due_ns(false)].into_iter().flatten().fold(next_tick, u64::min);
        let now = now_ns();
        let naps = &self.naps;
        let nap = match awaited {
            Some(due) => naps.until(now, due).map(|nap| nap.min(until.saturating_sub(now))),
            None => Some(until.saturating_sub(now)),
        };
        let Some(nap) = nap.filter(|nap| *nap > 0) else { return };
        if self.awaits_soon(now) {
            return rustix::thread::sched_yield();
        }
        let timeout = sys::timespec(nap);
        let uffd = self.memory.uffd.fd();
        let faults = PollFd::from_borrowed_fd(uffd, PollFlags::IN);
        // An error means a signal or nothing: the loop checks by itself.
        let woken = match &self.node {
            Some(node) => rustix::event::poll(&mut [faults, node.poll()], Some(&timeout)),
            None => rustix::event::poll(&mut [faults], Some(&timeout)),
        };
        if woken == Ok(0) {
            naps.woke(now, nap, now_ns());
        }
    }

    /// Returns whether a page was asked for a moment ago of a memory node. Sleeping would take longer than its answer; whoever
    /// else wants this core gets it.
    fn awaits_soon(&self, now_ns: u64) -> bool {
        let coming = || {
            self.pending.iter().filter(|pending| pending.is_awaited && self.contents(pending.id).is_none())
        };
        self.node.is_some() && coming().any(|pending| now_ns < pending.read_ns + SPIN_NS)
    }

    /// Does the periodic work. Returns the time in ns until the next tick.
    fn tick(&mut self) -> u64 {
        self.sync();
        self.recycle();
        self.flush();
        self.keep_watch();
        if !self.pages.is_over() {
            return self.pages.pause_ns();
        }
        self.retry_stuck();
        self.reclaim();
        SHORTEST_TICK_NS
    }

    fn sync(&mut self) {
        let elsewhere = match &self.node {
            Some(node) => node.resident(),
            None => self.pages.remote_in_slots(),
        };
        let not_its_own = elsewhere as u64 + self.baseline.pages(&self.memory, self.pages.is_far_over());
        self.pages.sync(self.memory.anonymous_pages(), not_its_own);
    }
}

/// Binds the pager to its current core, which is its program's: waking another core takes five times as long. It
/// keeps its program's priority: with precedence, the scheduler lets the woken thread wait, and a fetch takes
/// twice as long (Linux 6.18). Asks for precise timers; goes on without if that is not permitted.
fn stay_on_this_core() -> usize {
    let here = rustix::thread::sched_getcpu();
    let mut only_here = rustix::thread::CpuSet::new();
    only_here.set(here);
    let _ = rustix::thread::sched_setaffinity(None, &only_here);
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
    here
}
