//! A pair of queues that the threads of a process share, and waiting for answers.
//!
//! A waiting thread takes the answers of all threads from the queue, so that no thread depends on another one being
//! awake. While polling, each thread polls the queue for itself; [`sleepers`](super::sleepers) describes how threads
//! sleep.

use super::calls::PendingCalls;
use super::options::Options;
use super::sleepers::{SleeperSlot, Sleepers};
use super::transport::{ClientTransport, Connected};
use super::window::WindowLimit;
use crate::ends::{CallerBuffer, QueueFull};
use crate::error::Error;
use crate::lock::{Guard, Lock};
use crate::queue::AwaitedEntry;
use crate::queue::entry::{EntryStatus, Kind};
use crate::view::View;
use crate::wait::{self, LATE, Pause, PollLimits, PollTime};
use std::cell::Cell;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};
use unrack_pool::process::Maker;
use unrack_pool::wire::{Cause, PeerProcess};
use unrack_pool::{LOST_RING, Wakeup};

/// Time for which a thread polls for an answer even if polling was in vain recently: the response time of a server that
/// has to be woken. Without this minimum, client and server could both sleep at each call and never find out that
/// polling is faster.
const SHORT: Duration = Duration::from_micros(50);

/// Connection of a process to a service, which the threads of the process share.
pub(super) struct SharedConnection {
    maker: Maker,
    calls: Lock<PendingCalls>,
    sleepers: Sleepers,
    patience: PollTime,
    pause: Pause,
    options: Options,
    slots: usize,
    /// True if the server announced a sleep but could not be woken when it was last rung.
    unheard: AtomicBool,
    // Fields are dropped in this order, so the buffers are dropped before the memory that contains them.
    road: ClientTransport,
}

/// Shortest and longest time to sleep before a server that could not be woken is rung again.
const RING_AGAIN: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// Address of a message and its length in bytes.
pub(super) type Message = (NonNull<u8>, usize);

/// Number that belongs to no slot.
pub(super) const NOBODY: u16 = u16::MAX;

/// Reason why waiting ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFailure {
    TimeOver,
    Gone(Cause),
    /// A parent process made the connection.
    Forked,
}

impl SharedConnection {
    /// Connects to a service of a pool or at a TCP address.
    pub(super) fn connect(place: &Path, service: &str, options: Options) -> Result<SharedConnection, Error> {
        let Connected { road, caller, buffers } = Connected::to(place, service, options.patience)?;
        let slots = caller.lines();
        Ok(SharedConnection {
            maker: Maker::this_process(),
            calls: Lock::new(PendingCalls::new(caller, buffers)),
            sleepers: Sleepers::default(),
            patience: PollTime::new(options.waiting, SHORT),
            pause: road.pause(),
            options,
            slots,
            unheard: AtomicBool::new(false),
            road,
        })
    }

    /// Returns the configuration.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns whether this process, and not a parent of it, made the connection. In a child process made by `fork`, a
    /// lock may stay locked for ever, and the answers belong to the parent.
    #[inline(always)]
    pub(super) fn is_here(&self) -> bool {
        self.maker.is_here()
    }

    /// Fails unless this process made the connection.
    pub(super) fn check(&self) -> Result<(), Error> {
        Ok(self.maker.check()?)
    }

    /// Returns the server's process.
    pub(super) fn peer(&self) -> &PeerProcess {
        self.road.peer()
    }

    /// Returns whether the server can lend memory to this client.
    pub(super) fn shares_memory(&self) -> bool {
        matches!(self.road, ClientTransport::Pool { .. })
    }

    /// Returns a view of bytes that the server lends; `None` if it does not lend them.
    #[inline]
    pub(super) fn lent(&self, offset: u64, bytes: usize) -> Option<View<'_>> {
        self.maker.check().ok()?;
        self.road.lent(offset, bytes)
    }

    /// Returns the number of calls that may be in flight in the queues at a time.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns why the server is gone, or `None` if it is not.
    pub(super) fn gone(&self) -> Option<Cause> {
        self.road.gone()
    }

    /// Locks the state of the calls in flight.
    #[inline(always)]
    pub(super) fn calls(&self) -> Guard<'_, PendingCalls> {
        self.calls.lock()
    }

    /// Takes the answers that have come, and returns whether the answer of this slot is among them or came before.
    pub(super) fn glance(&self, slot: u16) -> bool {
        self.find(slot, SleeperSlot::Beside, &mut |calls: &mut PendingCalls| calls.answered(slot)).is_some()
    }

    /// Requests that the server end a stream, if the queue has room for this message. Otherwise the server ends the
    /// stream when the slot on which it was opened is used again.
    pub(super) fn close_stream(&self, connection: u16, opener: u16) {
        if !self.is_here() {
            return;
        }
        let mut calls = self.calls();
        if let Ok(Some((slot, _))) = calls.reserve(0) {
            let _ = calls.caller.post(slot, (Kind::Close, connection, u32::from(opener)), 0, 0);
            calls.release(slot);
        }
        drop(calls);
        self.ring();
    }

    /// Sends the request of a slot, and rings the server if it is seen asleep. A server that is just about to sleep may
    /// miss the request: the client rings it when it waits for the answer. If no thread waits, the server polls once
    /// more by itself.
    #[inline(never)]
    pub(super) fn post(
        &self,
        slot: u16,
        what: (Kind, u16, u32),
        bytes: (usize, usize),
        window: Option<&WindowLimit>,
    ) -> Result<(), QueueFull> {
        if !self.is_here() {
            return Err(QueueFull);
        }
        let mut calls = self.calls();
        calls.post(slot, what, bytes, window)?;
        drop(calls);
        if self.road.is_seen_asleep() {
            self.ring();
        }
        Ok(())
    }

    /// Repeats the request of a slot that waits for its answer.
    pub(super) fn post_again(&self, slot: u16) {
        // If the queue has no room, the repetition can be skipped, because calls in flight must be answered first.
        let _ = self.calls().caller.post_again(slot);
        self.ring();
    }

    /// Rings the server before the caller waits for answers, because the server may have missed requests while it went
    /// to sleep.
    pub(super) fn ring_after_all(&self) {
        if std::mem::take(&mut self.calls().unrung) {
            self.ring();
        }
    }

    /// Wakes the server if it sleeps, because there are requests for it. A server that was killed or stopped may
    /// announce a sleep for ever; in this case, waiting threads ring again from time to time.
    #[cold]
    fn ring(&self) {
        let heard = match self.road.far_that_wakes() {
            Some(channel) => self.calls().caller.wake_callee(|| channel.ring_far()),
            None => self.road.wake(),
        };
        self.unheard.store(!heard, Ordering::Relaxed);
        if !heard {
            self.calls().unrung = true;
        }
    }

    /// Reserves a slot with a buffer if both are available without allocation.
    #[inline(never)]
    pub(super) fn reserve(&self, bytes: usize) -> Option<(u16, NonNull<u8>)> {
        if !self.is_here() {
            return None;
        }
        self.calls().reserve_kept(bytes)
    }

    /// Reserves a slot with a newly allocated buffer; waits if no slot is free.
    #[cold]
    pub(super) fn reserve_later(
        &self,
        bytes: usize,
        longest: Option<Duration>,
    ) -> Result<(u16, NonNull<u8>), Box<Error>> {
        self.check().map_err(Box::new)?;
        // This is a separate statement so that the lock ends with it; in the `match` it would be held until the end of
        // the match.
        let reserved = self.calls().reserve(bytes);
        match reserved {
            Ok(Some(reserved)) => return Ok(reserved),
            Ok(None) => {}
            Err(error) => return Err(Box::new(error)),
        }
        let longest = longest.into_iter().chain(self.options.deadline).min();
        let deadline = longest.map(|longest| Instant::now() + longest);
        let waited = self.wait_for_room(deadline, |calls| calls.reserve(bytes).transpose());
        waited.map_err(|ended| self.no_slot(ended))?.map_err(Box::new)
    }

    /// Returns the error of a caller that got no slot.
    pub(super) fn no_slot(&self, ended: WaitFailure) -> Error {
        match ended {
            WaitFailure::TimeOver => Error::Exhausted { peer: self.peer().to_string(), slots: self.slots },
            WaitFailure::Gone(_) | WaitFailure::Forked => self.error_of(ended, Duration::ZERO),
        }
    }

    /// Returns the answer of a slot if it has come with success. The call then no longer counts in the window.
    #[inline(never)]
    pub(super) fn collect(&self, slot: u16, window: Option<&WindowLimit>) -> Option<Message> {
        if !self.is_here() {
            return None;
        }
        let mut calls = self.calls();
        // Each poll of the queue takes the line that the server is about to write away from the server's cache.
        // Therefore the queue is polled only if the answer has not been taken yet.
        if calls.answered(slot).is_none() && calls.take_answers(slot) {
            drop(calls);
            self.tell(SleeperSlot::Beside);
            return None;
        }
        let answer = calls.caller.answer(slot).filter(|answer| answer.status == EntryStatus::DONE)?;
        let base = calls.caller.buffer(slot).base();
        self.leave(calls, window);
        Some((NonNull::new(base)?, answer.length as usize))
    }

    /// Releases a slot that its caller no longer uses.
    #[inline(never)]
    pub(super) fn release(&self, slot: u16, window: Option<&WindowLimit>) {
        if !self.is_here() {
            return;
        }
        let mut calls = self.calls();
        calls.release(slot);
        self.leave(calls, window);
    }

    /// Removes a call from the count of its window, if it counts in one, and wakes the callers that wait for room.
    #[inline(always)]
    fn leave(&self, calls: Guard<'_, PendingCalls>, window: Option<&WindowLimit>) {
        if let Some(window) = window {
            window.leave();
        }
        let sought = calls.is_room_sought();
        drop(calls);
        if sought {
            self.tell_of_room();
        }
    }

    /// Waits until `ready` finds room. Room appears when answers come or slots are released.
    pub(super) fn wait_for_room<T>(
        &self,
        deadline: Option<Instant>,
        ready: impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> Result<T, WaitFailure> {
        self.calls().seekers += 1;
        let waited = self.wait_until(NOBODY, deadline, ready);
        self.calls().seekers -= 1;
        waited
    }

    /// Wakes the callers that wait for room, because there may be some.
    #[cold]
    fn tell_of_room(&self) {
        self.calls().tell_of_room();
        self.sleepers.tell_all(self.wakeup());
        self.wake_tasks();
    }

    /// Returns the error of a call whose waiting ended without an answer. `after` is the time that it waited.
    pub(super) fn error_of(&self, ended: WaitFailure, after: Duration) -> Error {
        let peer = self.peer().to_string();
        match ended {
            WaitFailure::TimeOver => {
                Error::Deadline { peer, after, stopped: self.unheard.load(Ordering::Relaxed) }
            }
            WaitFailure::Gone(cause) => self.road.error_of(cause),
            WaitFailure::Forked => unrack_pool::Error::Forked.into(),
        }
    }

    /// Waits until `ready` returns a result; `ready` is called each time after answers were taken. Other threads are
    /// not woken for the answer of `slot`, because this caller waits for it.
    #[inline(always)]
    pub(super) fn wait_until<T>(
        &self,
        slot: u16,
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> Result<T, WaitFailure> {
        if let Some(found) = self.look(slot, &mut ready).0 {
            return Ok(found);
        }
        let limits = PollLimits { budget: self.patience.budget(), deadline };
        let found = self.look_within(limits, slot, &mut ready);
        self.patience.learn(found.is_some());
        match found {
            Some(found) => Ok(found),
            None => self.sleep_until(slot, deadline, ready),
        }
    }

    /// Polls until `ready` returns a result, a limit is reached, or the server is gone.
    #[inline(always)]
    fn look_within<T>(
        &self,
        limits: PollLimits,
        slot: u16,
        ready: &mut impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> Option<T> {
        let (mut found, awaited) = (None, Cell::new(None));
        wait::look(
            Instant::now,
            limits,
            || {
                let (now, next) = self.look(slot, ready);
                awaited.set(next);
                found = now;
                found.is_some()
            },
            |moment| match awaited.get() {
                // SAFETY: the queues are mapped as long as `self` exists.
                Some(awaited) => unsafe { awaited.pause(self.pause, moment) },
                None => self.pause.moment(moment),
            },
            || {
                self.ring_after_all();
                self.gone().is_some()
            },
        );
        found
    }

    /// Polls once. Returns the result, if there is one, and the next entry to wait for. Returns neither if another
    /// thread is polling at the moment.
    #[inline(always)]
    fn look<T>(
        &self,
        slot: u16,
        ready: &mut impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> (Option<T>, Option<AwaitedEntry>) {
        let Some(mut calls) = self.calls.try_lock() else { return (None, None) };
        let others = calls.take_answers(slot);
        let found = ready(&mut calls);
        let awaited = calls.caller.awaited();
        drop(calls);
        if others {
            self.tell(SleeperSlot::Beside);
        }
        (found, Some(awaited))
    }

    #[cold]
    fn sleep_until<T>(
        &self,
        slot: u16,
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> Result<T, WaitFailure> {
        let (mut again, start) = (RING_AGAIN[0], Instant::now());
        loop {
            // This check comes before the search for answers, because the news that the peer is gone comes after its
            // last answer. If the peer is gone here, the search therefore finds every answer that it sent.
            let gone = self.gone();
            if let Some(found) = self.find(slot, SleeperSlot::Beside, &mut ready) {
                self.learn_nap(start);
                return Ok(found);
            }
            if let Some(cause) = gone {
                return Err(WaitFailure::Gone(cause));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(WaitFailure::TimeOver);
            }
            self.ring_after_all();
            let found = match left {
                Some(left) if left <= LATE => {
                    self.look_within(PollLimits { budget: None, deadline }, slot, &mut ready)
                }
                left => {
                    let is_far = self.road.is_far();
                    let nap = is_far.then(|| wait::nap(start.elapsed(), self.road.can_wake())).flatten();
                    let longest = match self.unheard.load(Ordering::Relaxed) {
                        true => again,
                        false => nap.unwrap_or(LOST_RING),
                    };
                    let left = left.map_or(longest, |left| longest.min(left - LATE));
                    again = RING_AGAIN[1].min(again * 2);
                    self.sleep(slot, left, is_far && nap.is_none(), &mut ready)
                }
            };
            if let Some(found) = found {
                self.learn_nap(start);
                return Ok(found);
            }
        }
    }

    /// If an answer of a server on another host came soon after the thread began to sleep, records that polling would
    /// have paid off.
    fn learn_nap(&self, start: Instant) {
        if self.road.is_far() && wait::came_soon(start.elapsed()) {
            self.patience.learn(true);
        }
    }

    /// Sleeps once, unless `ready` returns a result. If `until_rung` is true, the thread announces the sleep to a
    /// server on another host, which then rings.
    fn sleep<T>(
        &self,
        slot: u16,
        longest: Duration,
        until_rung: bool,
        ready: &mut impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> Option<T> {
        let (mut found, mut announced) = (None, None);
        self.sleepers.sleep(self.wakeup(), Some(longest), |place| {
            match place {
                SleeperSlot::OnBell => {
                    announced = until_rung.then(|| self.calls().caller.announce_sleep());
                    found = self.find(slot, place, ready);
                }
                SleeperSlot::Beside => found = ready(&mut self.calls()),
            }
            found.is_some() || self.gone().is_some()
        });
        if let Some(sleep) = announced {
            self.calls().caller.announce_awake(sleep);
        }
        found
    }

    /// Takes answers and then calls `ready`. `place` is where this thread looks from: on the wakeup or beside it.
    fn find<T>(
        &self,
        slot: u16,
        place: SleeperSlot,
        ready: &mut impl FnMut(&mut PendingCalls) -> Option<T>,
    ) -> Option<T> {
        let mut calls = self.calls();
        let others = calls.take_answers(slot);
        let found = ready(&mut calls);
        drop(calls);
        if others {
            self.tell(place);
        }
        found
    }

    /// Wakes waiting threads and tasks, because their answers may have been taken.
    #[inline]
    fn tell(&self, place: SleeperSlot) {
        self.sleepers.tell(self.wakeup(), place);
        self.wake_tasks();
    }

    fn wake_tasks(&self) {
        let woken = std::mem::take(&mut self.calls().woken);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes the threads that sleep on the wakeup, so that they see a change made by a thread of this process.
    pub(super) fn ring_own(&self) {
        self.sleepers.tell_all(self.wakeup());
    }

    /// Returns the bytes and the status of a slot's answer if the status is [`Status::DONE`] or [`Status::MORE`];
    /// otherwise the error that the status means.
    pub(super) fn part(&self, slot: u16) -> Result<(Message, EntryStatus), Error> {
        let calls = self.calls();
        let answer = calls.caller.answer(slot).expect("it is answered");
        let base = NonNull::new(calls.caller.buffer(slot).base());
        drop(calls);
        match (base, answer.status) {
            (Some(base), EntryStatus::DONE | EntryStatus::MORE) => {
                Ok(((base, answer.length as usize), answer.status))
            }
            _ => Err(self.failure(slot)),
        }
    }

    /// Returns the error that the answer of a slot means.
    #[cold]
    pub(super) fn failure(&self, slot: u16) -> Error {
        let (answer, room) = {
            let calls = self.calls();
            (calls.caller.answer(slot).expect("it is answered"), calls.caller.room(slot))
        };
        Error::of_status(self.peer(), answer.status, answer.length, room)
    }

    fn wakeup(&self) -> &Wakeup {
        self.road.wakeup()
    }
}
