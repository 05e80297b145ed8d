//! Handing the core over: how the thread that the pager wakes gets the pager's core at once, and at no cost.
//!
//! The scheduler would wake the thread on an idle core, because the pager occupies the thread's own core, and waking an idle core takes
//! long ([`super::threads`]). However, the scheduler regards a core whose only task has the class `SCHED_IDLE` as idle, and a woken thread
//! of another class preempts such a task (`sched_idle_cpu` and `check_preempt_wakeup_fair` in the kernel's `kernel/sched/fair.c`). Therefore
//! the pager has this class during a *burst*: while one thread faults so often that the thread and the pager certainly share a core. Then
//! no call is needed that binds the thread to the core and releases it again.
//!
//! The woken thread runs before the system call that woke it returns to the pager. Therefore everything that belongs to a fault, such as
//! eviction and accounts, precedes the wakeup during a burst.
//!
//! In this class, the pager gets almost no time on a core where another task runs. Therefore the helper thread is its *guard*: if the pager
//! has handled nothing for [`GUARD_NS`], the guard gives it back the normal class and rings the doorbell, which also ends a read in which the
//! pager waits for a fault. Only the guard gives the pager the class, so that no burst is without a guard. A thread of class `SCHED_IDLE`
//! may only leave it with the capability `CAP_SYS_NICE` or a sufficient limit `RLIMIT_NICE` (sched(7)); without them, there are no bursts.

use super::threads::Thread;
use crate::helper;
use crate::sys::{self, now_ns};
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Time in ns without progress after which the guard ends a burst.
pub(crate) const GUARD_NS: u64 = 1_000_000;
/// Time in ns that the pager waits for the thread's next fault below which the two threads share a core, because in a virtual machine a
/// wakeup on another core alone takes longer.
const TOGETHER_NS: u64 = 25_000;
/// Number of successive faults with such short times after which a burst begins.
const BEGINS_AFTER: u32 = 8;
/// Number of wakeups after which a burst ends and the thread is bound to the core once more, because the scheduler may have moved it.
const LONGEST: u32 = 4096;
/// Minimum time in ns between a burst in which the pager starved and the next one.
const SHORTEST_REST_NS: u64 = 2_000_000;
/// Maximum of that time, which doubles with each such burst in succession.
const LONGEST_REST_NS: u64 = 1_000_000_000;

/// State of bursts, which the pager and its guard share.
struct BurstState {
    /// Number of the pager's thread.
    pager: AtomicU32,
    /// Whether a burst is to begin: `NOT_WANTED`, `WANTED` (by the pager), `BEGINS` (the guard is about to give the pager the class).
    wish: AtomicU32,
    /// Set to 1 by the guard when the pager's thread has class `SCHED_IDLE`.
    is_on: AtomicU32,
    /// Number of times the pager has begun to wait for a fault.
    progress: AtomicU32,
    /// Number of bursts that the guard has ended.
    guarded_ends: AtomicU32,
}

const NOT_WANTED: u32 = 0;
const WANTED: u32 = 1;
const BEGINS: u32 = 2;

/// State of the bursts of this process.
static BURST: BurstState = BurstState::new();

/// The pager's side of bursts.
pub(super) struct HandOver {
    burst: &'static BurstState,
    is_permitted: bool,
    /// Thread that faulted last, and the number of its successive faults soon after a wakeup.
    thread: u32,
    soon: u32,
    /// Number of wakeups since the last one that was bound to the core.
    unbound: u32,
    /// Time since which the pager waits, or last waited, for a fault.
    waiting_ns: u64,
    /// Time of the last wakeup. During a burst, the expected end of the call that wakes.
    woken_ns: u64,
    /// Moving average of the duration of such a call, in ns.
    call_ns: u64,
    seen_ends: u32,
    rest_until_ns: u64,
    rest_ns: u64,
}

impl HandOver {
    /// Makes the state of the calling thread, which is a pager's. If `is_possible` is not set, there are no bursts.
    pub(super) fn new(is_possible: bool) -> HandOver {
        let is_permitted = is_possible && sys::may_leave_idle_class();
        HandOver { is_permitted, ..HandOver::of(&BURST) }
    }

    /// Makes the state of the calling thread for these bursts, none of which is permitted.
    fn of(burst: &'static BurstState) -> HandOver {
        burst.pager.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Relaxed);
        HandOver {
            burst,
            is_permitted: false,
            thread: 0,
            soon: 0,
            unbound: 0,
            waiting_ns: 0,
            woken_ns: 0,
            call_ns: 0,
            seen_ends: burst.guarded_ends.load(Relaxed),
            rest_until_ns: 0,
            rest_ns: SHORTEST_REST_NS,
        }
    }

    /// Returns whether a woken thread takes the pager's core at once, so that all work on a fault has to precede the wakeup.
    pub(super) fn is_on(&self) -> bool {
        self.burst.is_on.load(Relaxed) != 0
    }

    /// Notes that the pager is about to wait for the next fault.
    pub(super) fn waits(&mut self) {
        self.waiting_ns = now_ns();
        add_one(&self.burst.progress);
    }

    /// Notes a fault that was read at `read_ns`. Ends the burst if the fault is another thread's, or came so late that the thread may have
    /// run on another core.
    pub(super) fn faulted(&mut self, thread: u32, read_ns: u64) {
        if self.has_guard_ended() {
            // This fault waited until the guard noticed, because other tasks kept the pager from its core.
            self.rest_until_ns = read_ns + self.rest_ns;
            self.rest_ns = (2 * self.rest_ns).min(LONGEST_REST_NS);
        }
        if thread == self.thread && read_ns < self.waiting_ns + TOGETHER_NS {
            self.soon = self.soon.saturating_add(1);
            return;
        }
        (self.thread, self.soon) = (thread, 0);
        self.burst.end();
    }

    /// Notes that the doorbell rang while no fault waited: if the guard has ended a burst, the reason was that the thread makes no more
    /// faults.
    pub(super) fn rang(&mut self) {
        if self.has_guard_ended() {
            self.rest_ns = SHORTEST_REST_NS;
        }
    }

    fn has_guard_ended(&mut self) -> bool {
        let ends = self.burst.guarded_ends.load(Relaxed);
        core::mem::replace(&mut self.seen_ends, ends) != ends
    }

    /// Makes the call `wake`, which wakes `thread`, in such a way that the thread continues on the pager's core `here` if it faults often.
    pub(super) fn wake<T>(&mut self, thread: &Thread, here: usize, wake: impl FnOnce() -> T) -> T {
        let begin_ns = now_ns();
        if self.unbound >= LONGEST {
            self.burst.end();
        }
        // No burst may begin while the thread is bound, because the woken thread would keep the pager from releasing it.
        self.burst.withdraw();
        if self.is_on() {
            self.unbound += 1;
            self.woken_ns = begin_ns + self.call_ns;
            return wake();
        }
        let result = thread.woken_on(here, wake);
        self.unbound = 0;
        self.woken_ns = now_ns();
        // One interruption does not predict the next call.
        let call_ns = (self.woken_ns - begin_ns).min(2 * self.call_ns + 1_000);
        self.call_ns = (7 * self.call_ns + call_ns) / 8;
        if self.is_permitted && self.soon >= BEGINS_AFTER && self.woken_ns >= self.rest_until_ns {
            self.burst.want();
        }
        result
    }

    /// Returns when the work on a fault ends if its thread is woken now: the time that the woken thread will notice as the end of its wait.
    pub(super) fn end_ns(&self) -> u64 {
        now_ns() + self.call_ns
    }

    /// Returns when the thread whose fault was read at `read_ns` was woken; during a burst, the expected time. If it was not woken by
    /// [`HandOver::wake`], returns the present time.
    pub(super) fn woken_ns(&self, read_ns: u64) -> u64 {
        if self.woken_ns >= read_ns { self.woken_ns } else { now_ns() }
    }
}

impl BurstState {
    const fn new() -> BurstState {
        let [pager, wish, is_on, progress, guarded_ends] = [const { AtomicU32::new(0) }; 5];
        BurstState { pager, wish, is_on, progress, guarded_ends }
    }

    fn want(&self) {
        if self.wish.swap(WANTED, Relaxed) == NOT_WANTED {
            helper::call();
        }
    }

    /// Withdraws the wish for a burst. If the guard has accepted it already, waits until the burst has begun.
    fn withdraw(&self) {
        while self.wish.load(Acquire) != NOT_WANTED {
            if self.wish.compare_exchange(WANTED, NOT_WANTED, Relaxed, Relaxed).is_err() {
                rustix::thread::sched_yield();
            }
        }
    }

    /// Ends the burst if there is one. Called by the pager's thread.
    fn end(&self) {
        self.withdraw();
        if self.is_on.load(Relaxed) != 0 && self.is_on.swap(0, Relaxed) != 0 {
            sys::set_idle_class(0, false);
        }
    }
}

/// Adds one to a counter that only this thread changes.
fn add_one(counter: &AtomicU32) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// Ends the burst of this process if there is one. Called by the pager's thread.
pub(crate) fn end() {
    BURST.end();
}

/// The guard's side of bursts.
pub(crate) struct Guard {
    burst: &'static BurstState,
    seen: u32,
}

impl Guard {
    /// Makes the guard of this process's pager.
    pub(crate) fn new() -> Guard {
        Guard { burst: &BURST, seen: 0 }
    }

    /// Begins the burst that the pager wants, if it wants one. Returns whether there is a burst to guard.
    pub(crate) fn begin(&mut self) -> bool {
        if self.burst.wish.compare_exchange(WANTED, BEGINS, Relaxed, Relaxed).is_ok() {
            self.seen = self.burst.progress.load(Relaxed);
            sys::set_idle_class(self.burst.pager.load(Relaxed), true);
            self.burst.is_on.store(1, Relaxed);
            // With release, the pager that sees the end of the beginning also sees the burst.
            self.burst.wish.store(NOT_WANTED, Release);
        }
        self.burst.is_on.load(Relaxed) != 0
    }

    /// Ends the burst if the pager has made no progress since the last call. Returns whether it did.
    pub(crate) fn check(&mut self) -> bool {
        let seen = core::mem::replace(&mut self.seen, self.burst.progress.load(Relaxed));
        seen == self.seen && self.end()
    }

    /// Ends the burst; returns whether there was one.
    pub(crate) fn end(&mut self) -> bool {
        let was_on = self.burst.is_on.swap(0, Relaxed) != 0;
        if was_on {
            add_one(&self.burst.guarded_ends);
            sys::set_idle_class(self.burst.pager.load(Relaxed), false);
        }
        was_on
    }
}

/// Resets the state in the child of a fork, which has a new pager.
pub(crate) fn reset() {
    BURST.wish.store(NOT_WANTED, Relaxed);
    BURST.is_on.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_without_progress_and_the_pager_rests_only_after_starving() {
        static OWN: BurstState = BurstState::new();
        let mut pager = HandOver::of(&OWN);
        let mut guard = Guard { burst: &OWN, seen: 0 };
        assert!(!guard.begin() && !guard.check(), "no burst is wanted");

        OWN.wish.store(WANTED, Relaxed);
        assert!(guard.begin() && pager.is_on());
        pager.waits();
        assert!(!guard.check(), "there was progress");
        assert!(guard.check() && !pager.is_on());
        assert!(!guard.check(), "it has ended");
        pager.faulted(7, 100);
        assert_eq!((pager.rest_until_ns, pager.rest_ns), (100 + SHORTEST_REST_NS, 2 * SHORTEST_REST_NS));

        OWN.wish.store(WANTED, Relaxed);
        assert!(guard.begin() && guard.check());
        pager.faulted(7, 200);
        assert_eq!(pager.rest_until_ns, 200 + 2 * SHORTEST_REST_NS, "it starved twice in succession");

        OWN.wish.store(WANTED, Relaxed);
        assert!(guard.begin() && guard.check());
        pager.rang();
        assert_eq!(pager.rest_ns, SHORTEST_REST_NS, "the thread had no more faults");
        pager.faulted(7, 300);
        assert_eq!(pager.rest_until_ns, 200 + 2 * SHORTEST_REST_NS, "nothing new has ended");

        OWN.wish.store(WANTED, Relaxed);
        assert!(guard.begin());
        pager.faulted(7, pager.waiting_ns + 1);
        assert!(pager.is_on(), "the same thread, soon");
        pager.faulted(8, pager.waiting_ns + 1);
        assert!(!pager.is_on(), "another thread");
        OWN.wish.store(WANTED, Relaxed);
        assert!(guard.begin());
        pager.faulted(8, pager.waiting_ns + TOGETHER_NS);
        assert!(!pager.is_on(), "so late that the thread may run elsewhere");

        OWN.wish.store(WANTED, Relaxed);
        OWN.end();
        assert!(!guard.begin(), "a wish ends with the burst");
        assert!(!guard.end());
    }
}
