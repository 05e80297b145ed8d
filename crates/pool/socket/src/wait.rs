//! Sleeping of blocking calls, after they have spun for as long as their [`SpinTime`](crate::patience::SpinTime) allows.
//!
//! A thread that waits for bytes sleeps on its [`Wakeup`] and on the kernel's connection, which reports when the peer ends. Only one thread
//! of an end does so, its *leader*; the others sleep until the leader has returned. A thread that waits for room sleeps on a futex in the
//! area.

use crate::area::{EndpointWords, RingReading};
use crate::deadline::Deadline;
use crate::carried::{CarriedEnd, Woken};
use crate::kernel;
use crate::lock::thread_number;
use crate::wakeup::{self, SocketWakeup};
use libc::{POLLIN, POLLRDHUP, c_int, c_short, pollfd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep of a sender before it checks whether its peer is still alive.
const SENDER_NAP: Duration = Duration::from_millis(50);
/// Longest sleep of a follower before it checks whether its leader is still alive.
const FOLLOWER_NAP: Duration = Duration::from_millis(20);
/// Longest sleep of a reader before it checks the ring itself.
const NAP: Duration = Duration::from_secs(1);
/// Longest sleep of a call that waits for more bytes than there are, because wake bytes do not wake such a call.
const MORE_NAP: Duration = Duration::from_millis(10);

/// Waits until the ring has bytes, or the kernel reports an event. `has_some` means that the call already has bytes to return.
pub(crate) fn for_data(carried: &CarriedEnd<'_>, deadline: &mut Deadline, has_some: bool) -> Woken {
    let begin = Instant::now();
    let has_news = || carried.inward.look() != RingReading::Empty;
    let patience = &carried.entry.patience;
    if patience.spin(has_news) {
        return Woken::Look;
    }
    // Without this check, a peer that sends only wake bytes would keep the call from timing out.
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
    // Drain before requesting a wakeup. Otherwise the wake byte that answers the request could be drained too.
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

/// Registration of a thread that is about to sleep until the other end of a connection wakes it. Dropping it ends the sleep.
struct Asleep<'a> {
    end: &'a EndpointWords,
    wakeup: Option<SocketWakeup>,
}

impl<'a> Asleep<'a> {
    /// Registers this thread and states in the area how it is woken. The caller requests the wakeup afterwards.
    fn new(end: &'a EndpointWords) -> Asleep<'a> {
        let wakeup = SocketWakeup::of_thread();
        let alone = end.sleepers.fetch_add(1, Ordering::SeqCst) == 0;
        wakeup::state(end, wakeup, false, alone);
        Asleep { end, wakeup }
    }

    /// Sleeps until the wakeup is signalled or the descriptor is readable, at most for `most`. Returns the events that the kernel reports
    /// for the descriptor, or the error with which the call gives up. `has_some` means that the call already has bytes to return.
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
        // SAFETY: the mask is null.
        let ready = unsafe { kernel::poll(&mut both, Some(left.unwrap_or(most).min(most)), std::ptr::null()) };
        if let Some(wakeup) = self.wakeup
            && both[1].revents != 0
        {
            wakeup.clear();
        }
        match ready {
            0 if left.is_some_and(|left| left <= most) => Err(libc::EAGAIN),
            // As in the kernel, a signal always interrupts a call that has a timeout or has received some of its bytes.
            ..0 if left.is_some() || has_some || kernel::is_interruptible() => Err(kernel::errno()),
            _ => Ok(both[0].revents),
        }
    }

    /// Sleeps until the wakeup is signalled or the kernel reports an event on the connection.
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

/// Waits until the kernel has bytes to receive, or the ring has begun to carry. It may return early.
///
/// This thread states its wakeup in the area first. Otherwise the area could name another thread's wakeup, and the other end would signal
/// only that one.
pub(crate) fn for_first(
    carried: &CarriedEnd<'_>,
    deadline: &mut Deadline,
    has_some: bool,
) -> Result<(), c_int> {
    let deadline = deadline.at();
    let asleep = Asleep::new(carried.this_end());
    carried.inward.request_data();
    if carried.inward.look() != RingReading::Empty {
        return Ok(());
    }
    asleep.doze(carried.fd, deadline, NAP, has_some).map(|_| ())
}

/// Waits until a condition holds that depends on the bytes in the ring or in the kernel, or until no more bytes can come.
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
            // Do not poll the kernel's connection: it would report the bytes that this call leaves unread.
            asleep.doze(-1, deadline, MORE_NAP, carried.readable() > 0)?;
        }
    }
    Ok(())
}

/// Returns whether no more bytes can come in the direction to this end.
fn has_ended(fd: c_int) -> bool {
    kernel::poll_one(fd, POLLRDHUP, Some(Duration::ZERO)).0 > 0
}

/// Waits until the kernel has bytes, for a call that already has some. Returns false if the call should wait no longer: the direction has
/// ended, the call has timed out, or a signal interrupted it.
pub(crate) fn for_kernel(fd: c_int, deadline: &mut Deadline) -> bool {
    let left = deadline.left();
    match kernel::poll_one(fd, POLLIN, left).0 {
        ..=0 => false,
        // Return false if there are no bytes, so that a peer which sends only wake bytes cannot hold up the call.
        _ => kernel::readable(fd) > 0 && left.is_none_or(|left| !left.is_zero()),
    }
}

fn lead(leader: &AtomicU32, own: u32) -> bool {
    match leader.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed) {
        Ok(_) => true,
        // The old leader was killed, or it is this same thread, interrupted by a signal handler.
        Err(other) if other == own || kernel::is_gone(other) => {
            leader.compare_exchange(other, own, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }
        Err(_) => false,
    }
}

fn follow(end: &EndpointWords, turn: u32) -> Woken {
    end.followers.fetch_add(1, Ordering::SeqCst);
    if end.leader.load(Ordering::SeqCst) != 0 {
        kernel::futex_wait(&end.turn, turn, FOLLOWER_NAP);
    }
    end.followers.fetch_sub(1, Ordering::SeqCst);
    Woken::Look
}

/// Waits until the ring has room. `has_some` means that the call has sent a part already. Returns the error to give up with, if any.
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
        // As in the kernel, a call that has sent a part returns it, even if the signal handler has `SA_RESTART`.
        libc::EINTR if has_some || deadline.is_some() || kernel::is_interruptible() => Some(libc::EINTR),
        libc::ETIMEDOUT if carried.is_dead() => Some(libc::EPIPE),
        _ => None,
    }
}
