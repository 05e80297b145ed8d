//! Sleeping of blocking calls, after they have spun for as long as their [`Patience`](crate::patience::Patience) lasts.
//!
//! A thread that waits for bytes sleeps on its [`Wakeup`] and on the kernel's connection, which reports the end of the peer. Only
//! one thread of an end does so, its *leader*; others sleep until it has returned. A thread that waits for room sleeps on a word
//! of the area.

use crate::area::{End, Look};
use crate::deadline::Deadline;
use crate::carried::{CarriedEnd, Woken};
use crate::kernel;
use crate::lock::thread_number;
use crate::wakeup::{self, Wakeup};
use libc::{POLLIN, POLLRDHUP, c_int, c_short, pollfd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep of a sender before it looks whether its peer still lives.
const SENDER_NAP: Duration = Duration::from_millis(50);
/// Longest sleep of a follower before it looks whether its leader still lives.
const FOLLOWER_NAP: Duration = Duration::from_millis(20);
/// Longest sleep of a reader before it looks itself.
const NAP: Duration = Duration::from_secs(1);
/// Longest sleep of a call that waits for more bytes than are there, which wake bytes do not wake.
const MORE_NAP: Duration = Duration::from_millis(10);

/// Waits until the ring has bytes, or the kernel reports something. `has_some` says that the call has bytes already.
pub(crate) fn for_data(carried: &CarriedEnd<'_>, deadline: &mut Deadline, has_some: bool) -> Woken {
    let begin = Instant::now();
    let has_news = || carried.inward.look() != Look::Empty;
    let patience = &carried.entry.patience;
    if patience.spin(has_news) {
        return Woken::Look;
    }
    // A peer that only sends wakes would otherwise keep the call from ending in time.
    if deadline.was_over_at(begin) {
        return Woken::Error(libc::EAGAIN);
    }
    let end = carried.this_end();
    let own = thread_number();
    let turn = end.turn.load(Ordering::Acquire);
    if !lead(&end.leader, own) {
        return follow(end, turn);
    }
    let asleep = Asleep::new(end);
    // Before the request to be woken: its answer must not be among them.
    carried.drain();
    carried.inward.request_data();
    let deadline = deadline.at();
    let woken = if has_news() { Woken::Look } else { asleep.sleep(carried, deadline, has_some) };
    drop(asleep);
    patience.learn(begin.elapsed());
    end.leader.store(0, Ordering::Release);
    if end.followers.load(Ordering::SeqCst) > 0 {
        end.turn.fetch_add(1, Ordering::AcqRel);
        kernel::futex_wake(&end.turn, c_int::MAX);
    }
    woken
}

/// A thread that sleeps for an end; dropping it ends the sleep.
struct Asleep<'a> {
    end: &'a End,
    wakeup: Option<Wakeup>,
}

impl<'a> Asleep<'a> {
    /// States how this thread is woken. The request to be woken follows.
    fn new(end: &'a End) -> Asleep<'a> {
        let wakeup = Wakeup::of_thread();
        let alone = end.sleepers.fetch_add(1, Ordering::SeqCst) == 0;
        wakeup::state(end, wakeup, false, alone);
        Asleep { end, wakeup }
    }

    /// Sleeps until the wakeup is signalled or a descriptor has something to receive, for a time at most. Returns what the
    /// kernel reports of the descriptor, or the reason to give up. `has_some` says that there are bytes for the call already.
    fn doze(
        &self,
        fd: c_int,
        deadline: Option<Instant>,
        most: Duration,
        has_some: bool,
    ) -> Result<c_short, c_int> {
        let mut both = [
            pollfd { fd, events: POLLIN | POLLRDHUP, revents: 0 },
            pollfd { fd: self.wakeup.map_or(-1, |wakeup| wakeup.fd), events: POLLIN, revents: 0 },
        ];
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // SAFETY: no mask.
        let ready = unsafe { kernel::poll(&mut both, Some(left.unwrap_or(most).min(most)), std::ptr::null()) };
        if let Some(wakeup) = self.wakeup
            && both[1].revents != 0
        {
            wakeup.clear();
        }
        match ready {
            0 if left.is_some_and(|left| left <= most) => Err(libc::EAGAIN),
            // As the kernel: a call with a time-out, or with a part of its bytes, is not begun again after a signal.
            ..0 if left.is_some() || has_some || kernel::is_interruptible() => Err(kernel::errno()),
            _ => Ok(both[0].revents),
        }
    }

    /// Sleeps until the wakeup is signalled, or the kernel reports something of the connection.
    fn sleep(&self, carried: &CarriedEnd<'_>, deadline: Option<Instant>, has_some: bool) -> Woken {
        match self.doze(carried.fd, deadline, NAP, has_some) {
            Err(errno) => Woken::Error(errno),
            Ok(0) => Woken::Look,
            Ok(_) => carried.look_at_kernel().unwrap_or(Woken::Look),
        }
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let _ = self.end.sleepers.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |n| n.checked_sub(1));
    }
}

/// Waits until the kernel has something to receive, or the ring has begun to carry. It may return early.
///
/// The request to be woken states this thread's wakeup: another thread's may be known to the other end, which signals that
/// alone.
pub(crate) fn for_first(
    carried: &CarriedEnd<'_>,
    deadline: &mut Deadline,
    has_some: bool,
) -> Result<(), c_int> {
    let deadline = deadline.at();
    let asleep = Asleep::new(carried.this_end());
    carried.inward.request_data();
    if carried.inward.look() != Look::Empty {
        return Ok(());
    }
    asleep.doze(carried.fd, deadline, NAP, has_some).map(|_| ())
}

/// Waits until a condition holds that bytes in the ring or in the kernel may bring about, or no more can come.
pub(crate) fn for_more(
    carried: &CarriedEnd<'_>,
    deadline: &mut Deadline,
    holds: impl Fn() -> bool,
) -> Result<(), c_int> {
    let deadline = deadline.at();
    while !holds() && !has_ended(carried.fd) {
        let asleep = Asleep::new(carried.this_end());
        carried.inward.request_data();
        if !holds() {
            // Not on the kernel's connection, which reports the bytes that are not to be taken.
            asleep.doze(-1, deadline, MORE_NAP, carried.readable() > 0)?;
        }
    }
    Ok(())
}

/// Returns true if nothing can come any more in the direction of this end.
fn has_ended(fd: c_int) -> bool {
    kernel::poll_one(fd, POLLRDHUP, Some(Duration::ZERO)).0 > 0
}

/// Waits until the kernel has bytes, in a call that has some already. Returns false if none are to come now: the direction has
/// ended, the call's time is over, or a signal interrupted it.
pub(crate) fn for_kernel(fd: c_int, deadline: &mut Deadline) -> bool {
    let left = deadline.left();
    match kernel::poll_one(fd, POLLIN, left).0 {
        ..=0 => false,
        // A peer that only sends wake bytes does not keep the call.
        _ => kernel::readable(fd) > 0 && left.is_none_or(|left| !left.is_zero()),
    }
}

fn lead(leader: &AtomicU32, own: u32) -> bool {
    match leader.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => true,
        // A leader that was killed; or a signal handler of its own thread.
        Err(other) if other == own || kernel::is_gone(other) => {
            leader.compare_exchange(other, own, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }
        Err(_) => false,
    }
}

fn follow(end: &End, turn: u32) -> Woken {
    end.followers.fetch_add(1, Ordering::SeqCst);
    if end.leader.load(Ordering::SeqCst) != 0 {
        kernel::futex_wait(&end.turn, turn, FOLLOWER_NAP);
    }
    end.followers.fetch_sub(1, Ordering::SeqCst);
    Woken::Look
}

/// Waits until the ring has room. `has_some` says that the call has sent a part. Returns the reason to give up, if any.
pub(crate) fn for_room(
    carried: &CarriedEnd<'_>,
    deadline: Option<Instant>,
    has_some: bool,
) -> Option<c_int> {
    let begin = Instant::now();
    let out = &carried.out;
    let has_news = || out.has_room() || out.has_ended() || out.is_unwanted();
    let patience = &carried.entry.patience;
    if patience.spin(has_news) {
        return None;
    }
    let signals = out.signals();
    let word = signals.room.load(Ordering::Acquire);
    out.request_room();
    if has_news() {
        return None;
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return Some(libc::EAGAIN);
    }
    let slept = kernel::futex_wait(&signals.room, word, left.unwrap_or(SENDER_NAP).min(SENDER_NAP));
    patience.learn(begin.elapsed());
    let reason = if slept == 0 { 0 } else { kernel::errno() };
    match reason {
        // As the kernel: what was sent is returned, whatever the handler asks for (`SA_RESTART`).
        libc::EINTR if has_some || deadline.is_some() || kernel::is_interruptible() => Some(libc::EINTR),
        libc::ETIMEDOUT if carried.is_dead() => Some(libc::EPIPE),
        _ => None,
    }
}
