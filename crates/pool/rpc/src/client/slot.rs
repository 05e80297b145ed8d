//! A slot of the queues: the state of a call, from writing its request to reading its answer.
//!
//! The steps that every call takes ([`SharedConnection::reserve`], [`SharedConnection::post`], [`SharedConnection::collect`],
//! [`SharedConnection::release`]) are compiled once, here, and return values that fit in registers. Rare steps are marked cold and box
//! their errors. If a step were inlined with an [`Error`] in its result, the result would be in memory, where it would be stored in
//! pieces and loaded as a whole. Such a load is wider than the stores that it reads, so it would wait until all earlier
//! stores are globally visible, among them the stores of the request.

use super::connection::Connection;
use super::shared::{Message, SharedConnection, WaitFailure};
use super::window::WindowLimit;
use crate::ends::QueueFull;
use crate::error::Error;
use crate::queue::entry::Kind;
use std::future::poll_fn;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A slot and its buffer, which are released when the slot is dropped. It consists of two words, so that it is passed
/// in registers.
pub(super) struct Slot<'c> {
    pub connection: &'c Connection,
    /// The slot's index, combined with [`COUNTED`] and [`TIMED`].
    index: u64,
}

/// Flag of `Slot::index`: the call counts in the window.
const COUNTED: u64 = 1 << 32;
/// Flag of `Slot::index`: the call has a separate deadline, which replaces the connection's.
const TIMED: u64 = 1 << 33;

impl<'c> Slot<'c> {
    /// Reserves a slot, and returns it with the address of its buffer.
    #[inline(always)]
    pub(super) fn reserve(
        connection: &'c Connection,
        bytes: usize,
    ) -> Result<(Slot<'c>, NonNull<u8>), Error> {
        let shared = &*connection.shared;
        let reserved = match shared.reserve(bytes) {
            Some(reserved) => Ok(reserved),
            None => shared.reserve_later(bytes, None),
        };
        match reserved {
            Ok((index, base)) => Ok((Slot { connection, index: u64::from(index) }, base)),
            Err(error) => Err(*error),
        }
    }

    /// Reserves a slot as [`reserve`](Slot::reserve) does, but waits at most `longest` for a free one.
    pub(super) fn reserve_within(
        connection: &'c Connection,
        bytes: usize,
        longest: Duration,
    ) -> Result<(Slot<'c>, NonNull<u8>), Error> {
        let shared = &*connection.shared;
        let (index, base) = match shared.reserve(bytes) {
            Some(reserved) => reserved,
            None => shared.reserve_later(bytes, Some(longest)).map_err(|error| *error)?,
        };
        Ok((Slot { connection, index: u64::from(index) }, base))
    }

    /// Reserves a slot as [`reserve`](Slot::reserve) does, but does not block the thread while no slot is free.
    pub(super) async fn reserve_async(
        connection: &'c Connection,
        bytes: usize,
    ) -> Result<(Slot<'c>, NonNull<u8>), Error> {
        let deadline = connection.shared.options().deadline.map(|deadline| Instant::now() + deadline);
        poll_fn(|context| Slot::poll_reserve(connection, context, bytes, deadline)).await
    }

    fn poll_reserve(
        connection: &'c Connection,
        context: &mut Context<'_>,
        bytes: usize,
        deadline: Option<Instant>,
    ) -> Poll<Result<(Slot<'c>, NonNull<u8>), Error>> {
        let shared = &*connection.shared;
        shared.check()?;
        let gone = shared.gone();
        let mut calls = shared.calls();
        if let Some((index, base)) = calls.reserve(bytes)? {
            return Poll::Ready(Ok((Slot { connection, index: u64::from(index) }, base)));
        }
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let earlier = calls.seek_room(context.waker(), deadline);
        drop(calls);
        match gone {
            Some(cause) => Poll::Ready(Err(shared.no_slot(WaitFailure::Gone(cause)))),
            None if over => Poll::Ready(Err(shared.no_slot(WaitFailure::TimeOver))),
            None => {
                connection.reactor.attend(earlier)?;
                Poll::Pending
            }
        }
    }

    /// Returns the index of the slot.
    #[inline(always)]
    pub(super) fn index(&self) -> u16 {
        self.index as u16
    }

    /// Sends a request as soon as there is room, and rings the server if it sleeps. A call counts in the window; other
    /// kinds of requests do not.
    #[inline(always)]
    pub(super) fn post(&mut self, kind: Kind, method: u32, bytes: (usize, usize)) -> Result<(), Error> {
        let Connection { shared, window, number, .. } = self.connection;
        let (window, what) = ((kind == Kind::Call).then_some(window), (kind, *number, method));
        if let Err(QueueFull) = shared.post(self.index(), what, bytes, window) {
            post_later(shared, self.index, window, what, bytes).map_err(|error| *error)?;
        }
        if kind == Kind::Call {
            self.index |= COUNTED;
        }
        Ok(())
    }

    /// Sends the request of a call as [`post`](Slot::post) does, but only if there is room for it now.
    pub(super) fn try_post(&mut self, method: u32, bytes: (usize, usize)) -> Result<(), QueueFull> {
        let connection = self.connection;
        let what = (Kind::Call, connection.number, method);
        connection.shared.post(self.index(), what, bytes, Some(&connection.window))?;
        self.index |= COUNTED;
        Ok(())
    }

    /// Sends the request of a call as [`post`](Slot::post) does, but does not block the thread.
    pub(super) fn poll_post(
        &mut self,
        context: &mut Context<'_>,
        method: u32,
        bytes: (usize, usize),
    ) -> Poll<Result<(), Error>> {
        let (connection, index) = (self.connection, self.index());
        let shared = &*connection.shared;
        shared.check()?;
        let gone = shared.gone();
        let mut calls = shared.calls();
        let what = (Kind::Call, connection.number, method);
        if calls.post(index, what, bytes, Some(&connection.window)).is_ok() {
            drop(calls);
            self.index |= COUNTED;
            shared.ring_after_all();
            return Poll::Ready(Ok(()));
        }
        let deadline = calls.deadline(index, shared.options().deadline);
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let earlier = calls.seek_room(context.waker(), deadline);
        drop(calls);
        match gone {
            Some(cause) => Poll::Ready(Err(error_of(shared, index, WaitFailure::Gone(cause)))),
            None if over => Poll::Ready(Err(error_of(shared, index, WaitFailure::TimeOver))),
            None => {
                connection.reactor.attend(earlier)?;
                Poll::Pending
            }
        }
    }

    /// Sets a deadline for this call alone, which replaces the connection's deadline.
    pub(super) fn set_deadline(&mut self, longest: Duration) {
        // A child process after a fork must not lock the calls; there, the call is refused when it is made.
        if self.connection.shared.is_here() {
            self.connection.shared.calls().set_deadline(self.index(), longest);
            self.index |= TIMED;
        }
    }

    /// Waits for the answer, and succeeds whatever its status is.
    pub(super) fn wait(&self) -> Result<(), WaitFailure> {
        wait(&self.connection.shared, self.index)
    }

    /// Waits for the answer for at most `longest`, regardless of the call's deadline.
    pub(super) fn wait_until(&self, longest: Duration) -> Result<(), WaitFailure> {
        let shared = &*self.connection.shared;
        wait_until(shared, self.index(), Some(Instant::now() + longest), shared.options().resend)
    }

    /// Waits for the answer for at most `longest`. Returns `None` if the answer has not come by then and the call's
    /// deadline is not over.
    pub(super) fn wait_for(&self, longest: Duration) -> Option<Result<(), WaitFailure>> {
        let (shared, slot) = (&*self.connection.shared, self.index());
        if !shared.is_here() {
            return Some(Err(WaitFailure::Forked));
        }
        let over = Instant::now() + longest;
        let deadline = shared.calls().deadline(slot, shared.options().deadline);
        let until = deadline.map_or(over, |deadline| deadline.min(over));
        match wait_until(shared, slot, Some(until), shared.options().resend) {
            Err(WaitFailure::TimeOver) if deadline.is_none_or(|deadline| Instant::now() < deadline) => None,
            ended => Some(ended),
        }
    }

    /// Waits for the answer, and returns it with the slot.
    #[inline(always)]
    pub(super) fn collect(self) -> Result<(Slot<'c>, Message), Error> {
        let shared = &*self.connection.shared;
        let collected = match shared.collect(self.index(), self.window()) {
            Some(message) => Ok(message),
            None => collect_later(shared, self.index, self.window()),
        };
        self.with(collected)
    }

    /// Waits for the answer for at most `longest`, regardless of the call's deadline, and returns it with the slot.
    pub(super) fn collect_within(self, longest: Duration) -> Result<(Slot<'c>, Message), Error> {
        let shared = &*self.connection.shared;
        let waited = self.wait_until(longest);
        let collected = match waited {
            Err(WaitFailure::TimeOver) => Err(Box::new(shared.error_of(WaitFailure::TimeOver, longest))),
            waited => finish(shared, self.index(), self.window(), waited),
        };
        self.with(collected)
    }

    /// Returns the answer, or the error, of a call that is answered or no longer waited for.
    pub(super) fn finish(self, ended: Result<(), WaitFailure>) -> Result<(Slot<'c>, Message), Error> {
        let collected = finish(&self.connection.shared, self.index(), self.window(), ended);
        self.with(collected)
    }

    /// Returns the slot of an answered call, which no longer counts in the window. Drops the slot of a failed call.
    #[inline(always)]
    fn with(mut self, collected: Result<Message, Box<Error>>) -> Result<(Slot<'c>, Message), Error> {
        match collected {
            Ok(message) => {
                self.index &= !COUNTED;
                Ok((self, message))
            }
            Err(error) => Err(*error),
        }
    }

    /// Returns the window if the call counts in it.
    #[inline(always)]
    fn window(&self) -> Option<&'c WindowLimit> {
        (self.index & COUNTED != 0).then_some(&self.connection.window)
    }
}

impl Drop for Slot<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.connection.shared.release(self.index(), self.window());
    }
}

/// Sends the request of a slot that could not be sent at once: waits until there is room.
#[cold]
fn post_later(
    shared: &SharedConnection,
    index: u64,
    window: Option<&WindowLimit>,
    what: (Kind, u16, u32),
    bytes: (usize, usize),
) -> Result<(), Box<Error>> {
    shared.check().map_err(Box::new)?;
    let slot = index as u16;
    let posted =
        shared.wait_for_room(limit(shared, index), |calls| calls.post(slot, what, bytes, window).ok());
    posted.map_err(|ended| Box::new(error_of(shared, slot, ended)))?;
    shared.ring_after_all();
    Ok(())
}

/// Waits for an answer that had not come at the first poll.
fn collect_later(
    shared: &SharedConnection,
    index: u64,
    window: Option<&WindowLimit>,
) -> Result<Message, Box<Error>> {
    let waited = wait(shared, index);
    finish(shared, index as u16, window, waited)
}

/// Waits for the answer. If `resend` is configured, repeats the request whenever no answer has come for that time.
fn wait(shared: &SharedConnection, index: u64) -> Result<(), WaitFailure> {
    let (options, slot) = (shared.options(), index as u16);
    if !shared.is_here() {
        return Err(WaitFailure::Forked);
    }
    if options.deadline.is_none() && options.resend.is_none() && index & TIMED == 0 {
        return shared.wait_until(slot, None, |calls| calls.answered(slot));
    }
    wait_until(shared, slot, limit(shared, index), options.resend)
}

fn wait_until(
    shared: &SharedConnection,
    slot: u16,
    deadline: Option<Instant>,
    resend: Option<Duration>,
) -> Result<(), WaitFailure> {
    if !shared.is_here() {
        return Err(WaitFailure::Forked);
    }
    loop {
        let again = resend.map(|resend| Instant::now() + resend);
        let until = deadline.into_iter().chain(again).min();
        match shared.wait_until(slot, until, |calls| calls.answered(slot)) {
            Err(WaitFailure::TimeOver) if again.is_some() && until == again => shared.post_again(slot),
            ended => return ended,
        }
    }
}

/// Returns when a call is given up: at its own deadline if it has one, or else after the connection's deadline, counted
/// from now.
fn limit(shared: &SharedConnection, index: u64) -> Option<Instant> {
    if index & TIMED != 0 {
        return shared.calls().given_up(index as u16).map(|(at, _)| at);
    }
    shared.options().deadline.map(|deadline| Instant::now() + deadline)
}

fn finish(
    shared: &SharedConnection,
    slot: u16,
    window: Option<&WindowLimit>,
    ended: Result<(), WaitFailure>,
) -> Result<Message, Box<Error>> {
    let why = match ended {
        Ok(()) => match shared.collect(slot, window) {
            Some(message) => return Ok(message),
            None => shared.failure(slot),
        },
        Err(ended) => error_of(shared, slot, ended),
    };
    Err(Box::new(why))
}

fn error_of(shared: &SharedConnection, slot: u16, ended: WaitFailure) -> Error {
    if ended == WaitFailure::Forked {
        return shared.error_of(ended, Duration::ZERO);
    }
    let given = shared.calls().given_up(slot).map(|(_, after)| after);
    shared.error_of(ended, given.or(shared.options().deadline).unwrap_or_default())
}
