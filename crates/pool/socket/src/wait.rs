//! Waiting of blocking calls: spin shortly, then sleep.
//!
//! Who waits for bytes sleeps on its [`bell`] and on the kernel's connection, which tells the end of the peer. One
//! thread of an end does, its *leader*; others sleep until it has returned. Who waits for room sleeps on a word of the area.

use crate::area::{End, Look};
use crate::bell::{self, Bell};
use crate::lock::thread_number;
use crate::options::readable_of;
use crate::table::{Entry, Link};
use crate::{crowd, kernel};
use libc::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Nanoseconds that a new connection's calls spin.
pub(crate) const FIRST_PATIENCE: u32 = 20_000;
/// Most nanoseconds that a call spins: a sleep that ends sooner was not worth it.
const MOST_PATIENCE: u32 = 200_000;
/// Nanoseconds from which the patience grows, and under which it is none.
const LEAST_PATIENCE: u32 = 5_000;
/// Looks before the clock is read.
const LOOKS: u32 = 16;
/// Longest sleep of a sender before it looks whether its peer still lives.
const SENDER_NAP: Duration = Duration::from_millis(50);
/// Longest sleep of a follower before it looks whether its leader still lives.
const FOLLOWER_NAP: Duration = Duration::from_millis(20);

/// Longest sleep of a reader before it looks itself.
const NAP: Duration = Duration::from_secs(1);
/// Longest sleep of a call that waits for more bytes than are there, which wake bytes do not wake.
const MORE_NAP: Duration = Duration::from_millis(10);
/// Most calls that take wake bytes in, at a time.
const MOST_DRAINS: u32 = 64;

/// End of a wait.
pub(crate) enum Woken {
    /// Something changed: look again.
    Look,
    /// The kernel's connection has ended in the direction of this end.
    End,
    /// The kernel reports an error, which it then forgets.
    Error(c_int),
    /// Bytes are in the kernel that were not announced.
    Foreign,
}

/// Spins until a condition holds, for as long as it paid before. Returns whether it holds.
pub(crate) fn spin(patience: &AtomicU32, mut holds: impl FnMut() -> bool) -> bool {
    let budget = patience.load(Ordering::Relaxed);
    if holds() {
        return true;
    }
    if budget == 0 {
        return false;
    }
    let (budget, begin) = (Duration::from_nanos(budget.into()), Instant::now());
    if !crowd::may_spin(begin) {
        return holds();
    }
    let found = look_for(budget, begin, &mut holds);
    let spent = begin.elapsed();
    if spent > budget * 2 {
        // Others had the processor meanwhile: they need it, and the peer may be among them.
        learn(patience, spent.max(Duration::from_nanos(MOST_PATIENCE.into())));
    }
    found
}

/// Learns from a wait that ended in a sleep: had it been worth spinning on? The patience grows if all of it was short, and
/// shrinks if it was long.
pub(crate) fn learn(patience: &AtomicU32, waited: Duration) {
    let now = patience.load(Ordering::Relaxed);
    let next = match waited < Duration::from_nanos(MOST_PATIENCE.into()) {
        true => (now * 2).clamp(LEAST_PATIENCE, MOST_PATIENCE),
        false if now / 2 < LEAST_PATIENCE => 0,
        false => now / 2,
    };
    patience.store(next, Ordering::Relaxed);
}

fn look_for(budget: Duration, begin: Instant, holds: &mut impl FnMut() -> bool) -> bool {
    loop {
        for _ in 0..LOOKS {
            if holds() {
                return true;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() >= budget {
            return holds();
        }
    }
}

/// Waits until the ring has bytes, or the kernel has something to say. `deadline` is found out when it is first needed;
/// `has_some` says that the call has bytes already.
pub(crate) fn for_data(
    entry: &Entry,
    link: &Link<'_>,
    fd: c_int,
    deadline: &mut Option<Option<Instant>>,
    has_some: bool,
) -> Woken {
    let begin = Instant::now();
    let has_news = || link.inward.look() != Look::Empty;
    if spin(&entry.patience, has_news) {
        return Woken::Look;
    }
    // Woken again and again without bytes, by a peer that only sends wakes, the call ends in time all the same.
    if deadline.flatten().is_some_and(|deadline| begin >= deadline) {
        return Woken::Error(libc::EAGAIN);
    }
    let end = link.this_end();
    let own = thread_number();
    let turn = end.turn.load(Ordering::Acquire);
    if !lead(&end.leader, own) {
        return follow(link, turn);
    }
    let bell = Asleep::new(end);
    // Before the request to be woken: its answer must not be among them.
    drain(link, fd);
    link.inward.request_data();
    let deadline = *deadline.get_or_insert_with(|| give_up(fd, libc::SO_RCVTIMEO));
    let woken = if has_news() { Woken::Look } else { bell.sleep(link, fd, deadline, has_some) };
    drop(bell);
    learn(&entry.patience, begin.elapsed());
    end.leader.store(0, Ordering::Release);
    if end.followers.load(Ordering::SeqCst) > 0 {
        end.turn.fetch_add(1, Ordering::AcqRel);
        kernel::futex_wake(&end.turn, c_int::MAX);
    }
    woken
}

/// A thread that sleeps for an end; dropping it ends the sleep.
pub(crate) struct Asleep<'a> {
    end: &'a End,
    bell: Option<Bell>,
}

impl<'a> Asleep<'a> {
    /// States how this thread is woken. The request to be woken follows.
    pub(crate) fn new(end: &'a End) -> Asleep<'a> {
        let bell = bell::of_thread();
        let alone = end.sleepers.fetch_add(1, Ordering::SeqCst) == 0;
        bell::state(end, bell, false, alone);
        Asleep { end, bell }
    }

    /// Sleeps until the bell rings or a descriptor has something to receive, for a time at most. Returns the reason to give up,
    /// if any. `has_some` says that there are bytes for the call already.
    fn doze(&self, fd: c_int, deadline: Option<Instant>, most: Duration, has_some: bool) -> Result<(), c_int> {
        let mut both = [
            libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 },
            libc::pollfd { fd: self.bell.map_or(-1, |bell| bell.fd), events: libc::POLLIN, revents: 0 },
        ];
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // SAFETY: no mask.
        let ready = unsafe { kernel::poll(&mut both, Some(left.unwrap_or(most).min(most)), std::ptr::null()) };
        if let Some(bell) = self.bell
            && both[1].revents != 0
        {
            bell::quiet(bell);
        }
        match ready {
            0 if left.is_some_and(|left| left <= most) => Err(libc::EAGAIN),
            ..0 if left.is_some() || has_some || kernel::is_interruptible() => Err(kernel::errno()),
            _ => Ok(()),
        }
    }

    /// Sleeps until the bell rings, or the kernel has something to say. `has_some` says that the call has bytes already.
    fn sleep(&self, link: &Link<'_>, fd: c_int, deadline: Option<Instant>, has_some: bool) -> Woken {
        let bell = self.bell.map_or(-1, |bell| bell.fd);
        let mut both = [
            libc::pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 },
            libc::pollfd { fd: bell, events: libc::POLLIN, revents: 0 },
        ];
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // SAFETY: no mask.
        let ready = unsafe { kernel::poll(&mut both, Some(left.unwrap_or(NAP).min(NAP)), std::ptr::null()) };
        if let Some(bell) = self.bell
            && both[1].revents != 0
        {
            bell::quiet(bell);
        }
        match ready {
            0 if left.is_some_and(|left| left <= NAP) => Woken::Error(libc::EAGAIN),
            0 => Woken::Look,
            // As the kernel: a call with a time-out, or with a part of its bytes, is not begun again after a signal.
            ..0 if left.is_some() || has_some || kernel::is_interruptible() => {
                Woken::Error(kernel::errno())
            }
            ..0 => Woken::Look,
            _ if both[0].revents != 0 => look_at_kernel(link, fd).unwrap_or(Woken::Look),
            _ => Woken::Look,
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
/// The request to be woken states this thread's bell: another's may be known to the other end, which rings that alone.
pub(crate) fn for_first(
    link: &Link<'_>,
    fd: c_int,
    deadline: &mut Option<Option<Instant>>,
    has_some: bool,
) -> Result<(), c_int> {
    let deadline = *deadline.get_or_insert_with(|| give_up(fd, libc::SO_RCVTIMEO));
    let asleep = Asleep::new(link.this_end());
    link.inward.request_data();
    if link.inward.look() != Look::Empty {
        return Ok(());
    }
    asleep.doze(fd, deadline, NAP, has_some)
}

/// Waits until a condition holds that bytes in the ring or in the kernel may bring about, or no more can come.
pub(crate) fn for_more(
    link: &Link<'_>,
    fd: c_int,
    deadline: &mut Option<Option<Instant>>,
    holds: impl Fn() -> bool,
) -> Result<(), c_int> {
    let deadline = *deadline.get_or_insert_with(|| give_up(fd, libc::SO_RCVTIMEO));
    while !holds() && !has_ended(fd) {
        let asleep = Asleep::new(link.this_end());
        link.inward.request_data();
        if !holds() {
            // Not on the kernel's connection, which reports the bytes that are not to be taken.
            asleep.doze(-1, deadline, MORE_NAP, readable_of(link, fd) > 0)?;
        }
    }
    Ok(())
}

/// Returns true if nothing can come any more in the direction of this end.
fn has_ended(fd: c_int) -> bool {
    let mut one = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
    // SAFETY: no mask.
    unsafe { kernel::poll(&mut one, Some(Duration::ZERO), std::ptr::null()) > 0 }
}

/// Waits until the kernel has bytes, in a call that has some already. Returns false if there are none to come now: the direction
/// has ended, the call's time is over, or a signal interrupted it.
pub(crate) fn for_kernel(fd: c_int, deadline: &mut Option<Option<Instant>>) -> bool {
    let deadline = *deadline.get_or_insert_with(|| give_up(fd, libc::SO_RCVTIMEO));
    let mut one = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    // SAFETY: no mask.
    match unsafe { kernel::poll(&mut one, left, std::ptr::null()) } {
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

fn follow(link: &Link<'_>, turn: u32) -> Woken {
    let end = link.this_end();
    end.followers.fetch_add(1, Ordering::SeqCst);
    if end.leader.load(Ordering::SeqCst) != 0 {
        kernel::futex_wait(&end.turn, turn, FOLLOWER_NAP);
    }
    end.followers.fetch_sub(1, Ordering::SeqCst);
    Woken::Look
}

/// Takes wake bytes in. Returns whether there were any.
pub(crate) fn drain(link: &Link<'_>, fd: c_int) -> bool {
    if link.inward.wakes() == 0 {
        return false;
    }
    let mut any = false;
    // Two threads that take in the same bytes would take data as well.
    let held = link.lock_recv();
    // A peer that sends on and on does not keep this thread.
    for _ in 0..MOST_DRAINS {
        let wakes = link.inward.wakes();
        if wakes == 0 {
            break;
        }
        let mut bytes = [0_u8; 64];
        let most = wakes.min(bytes.len());
        // SAFETY: a buffer of our own.
        let got = unsafe { kernel::recv(fd, bytes.as_mut_ptr(), most, libc::MSG_DONTWAIT) };
        if got <= 0 {
            break;
        }
        link.inward.reader().skipped.fetch_add(got as u64, Ordering::AcqRel);
        any = true;
    }
    drop(held);
    if any && bell::may_wake_several(link.this_end()) {
        // They were meant for whoever sleeps, and the kernel looks again before it lets a sleeper return: one that found them
        // gone sleeps on, so it has to be woken once more.
        link.inward.request_data();
    }
    any
}

/// Looks at the kernel's connection without waiting.
pub(crate) fn look_at_kernel(link: &Link<'_>, fd: c_int) -> Option<Woken> {
    drain(link, fd);
    let mut byte = 0_u8;
    // SAFETY: one byte of our own.
    let got = unsafe { kernel::recv(fd, &raw mut byte, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    match got {
        0 => Some(Woken::End),
        1.. if link.inward.wakes() > 0 || link.inward.look() != Look::Empty => Some(Woken::Look),
        1.. => Some(Woken::Foreign),
        _ if kernel::errno() == libc::EAGAIN => None,
        _ => Some(Woken::Error(kernel::errno())),
    }
}

/// Waits until the ring has room. `has_some` says that the call has sent a part. Returns the reason to give up, if any.
pub(crate) fn for_room(
    entry: &Entry,
    link: &Link<'_>,
    fd: c_int,
    deadline: Option<Instant>,
    has_some: bool,
) -> Option<c_int> {
    let begin = Instant::now();
    let has_news = || link.out.has_room() || link.out.has_ended() || link.out.is_unwanted();
    if spin(&entry.patience, has_news) {
        return None;
    }
    let signals = link.out.signals();
    let word = signals.room.load(Ordering::Acquire);
    link.out.request_room();
    if has_news() {
        return None;
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return Some(libc::EAGAIN);
    }
    let slept = kernel::futex_wait(&signals.room, word, left.unwrap_or(SENDER_NAP).min(SENDER_NAP));
    learn(&entry.patience, begin.elapsed());
    let reason = if slept == 0 { 0 } else { kernel::errno() };
    match reason {
        // As the kernel: what was sent is returned, whatever the handler asks for (`SA_RESTART`).
        libc::EINTR if has_some || deadline.is_some() || kernel::is_interruptible() => Some(libc::EINTR),
        libc::ETIMEDOUT if is_dead(link, fd) => Some(libc::EPIPE),
        _ => None,
    }
}

/// Returns true if the peer is gone: the kernel's connection has ended, and the peer did not say that it only ends its own
/// direction.
pub(crate) fn is_dead(link: &Link<'_>, fd: c_int) -> bool {
    let mut one = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
    // SAFETY: no mask.
    unsafe { kernel::poll(&mut one, Some(Duration::ZERO), std::ptr::null()) };
    let both = one[0].revents & (libc::POLLHUP | libc::POLLERR) != 0;
    both || one[0].revents & libc::POLLRDHUP != 0 && !link.inward.has_ended()
}

/// Returns when a blocking call gives up (`SO_RCVTIMEO` or `SO_SNDTIMEO`).
pub(crate) fn give_up(fd: c_int, option: c_int) -> Option<Instant> {
    // SAFETY: all zeros are a time.
    let mut time = unsafe { std::mem::zeroed::<libc::timeval>() };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes.
    let asked = unsafe {
        libc::syscall(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, option, &raw mut time, &raw mut length)
    };
    let most = Duration::new(time.tv_sec.max(0) as u64, (time.tv_usec as u32).saturating_mul(1000));
    (asked == 0 && !most.is_zero()).then(|| Instant::now() + most)
}
