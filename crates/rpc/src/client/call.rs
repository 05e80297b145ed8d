//! A call: its request, its answer, blocking or as a future.

use super::Client;
use super::calls::Calls;
use super::shared::Ended;
use super::stream::Stream;
use super::window::Limit;
use crate::ends::{Buffer, Full};
use crate::error::Error;
use crate::lock::Guard;
use crate::method::Method;
use crate::queue::entry::{Answer, Kind, Status};
use crate::view::{View, ViewMut};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A request that is being written, in the memory where the server will read it. One that is dropped was never made.
#[must_use = "a request does nothing until it is called, started or sent"]
pub struct Request<'c> {
    slot: Slot<'c>,
    base: *mut u8,
    length: usize,
    room: usize,
}

/// A slot of the queues, with its buffer, given back when it is dropped.
///
/// Two words, which are handed about in registers: in memory, a load of more than was stored at once would wait until all
/// stores before it are everywhere, among them those of the request.
pub(super) struct Slot<'c> {
    pub client: &'c Client,
    /// The index, [`COUNTED`] and [`TIMED`].
    index: u64,
}

/// It counts in the window.
const COUNTED: u64 = 1 << 32;
/// Its call has a deadline of its own.
const TIMED: u64 = 1 << 33;

// SAFETY: the buffer is this request's alone, and reached from any thread alike.
unsafe impl Send for Request<'_> {}
// SAFETY: a shared one only tells where it is.
unsafe impl Sync for Request<'_> {}
// SAFETY: as of requests.
unsafe impl Send for Response<'_> {}
// SAFETY: as of requests.
unsafe impl Sync for Response<'_> {}

impl<'c> Slot<'c> {
    #[inline(always)]
    pub fn reserve(client: &'c Client, bytes: usize) -> Result<(Slot<'c>, *mut u8), Error> {
        let deadline = client.shared.options().deadline.map(|deadline| Instant::now() + deadline);
        let (index, base) = client.shared.reserve(bytes, deadline)?;
        Ok((Slot { client, index: u64::from(index) }, base))
    }

    #[inline(always)]
    pub fn index(&self) -> u16 {
        self.index as u16
    }

    /// Sends a request, and rings if the server sleeps.
    #[inline(always)]
    pub fn post(&mut self, kind: Kind, method: u32, length: usize, room: usize) -> Result<(), Error> {
        self.post_within(None, (kind, self.client.connection, method), (length, room))
    }

    /// As [`post`](Slot::post), when the window has room for it.
    #[inline(always)]
    pub fn post_in_window(
        &mut self,
        kind: Kind,
        method: u32,
        length: usize,
        room: usize,
    ) -> Result<(), Error> {
        let client = self.client;
        self.post_within(Some(&client.window), (kind, client.connection, method), (length, room))?;
        self.index |= COUNTED;
        Ok(())
    }

    #[inline(always)]
    fn post_within(
        &mut self,
        window: Option<&Limit>,
        what: (Kind, u16, u32),
        bytes: (usize, usize),
    ) -> Result<(), Error> {
        let shared = &*self.client.shared;
        match shared.post(self.index(), what, bytes, window) {
            Ok(()) => Ok(()),
            Err(Full) => self.post_later(window, what, bytes),
        }
    }

    /// Sends a request when the window has room for it, without holding up a thread.
    fn poll_post(
        &mut self,
        context: &mut Context<'_>,
        method: u32,
        bytes: (usize, usize),
    ) -> Poll<Result<(), Error>> {
        let (client, index) = (self.client, self.index());
        let shared = &*client.shared;
        let gone = shared.gone();
        let mut calls = shared.calls();
        if calls.can_send(index) && client.window.enter(&mut calls) {
            calls.send(index, (Kind::Call, client.connection, method), bytes);
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
            Some(cause) => Poll::Ready(Err(self.error_of(Ended::Gone(cause)))),
            None if over => Poll::Ready(Err(self.error_of(Ended::TimeOver))),
            None => {
                client.reactor.attend(earlier)?;
                Poll::Pending
            }
        }
    }

    /// The call is answered, or given up: it does not count in the window any more.
    fn leave_window(&mut self, calls: &mut Calls) {
        if self.index & COUNTED != 0 {
            self.index &= !COUNTED;
            self.client.window.leave(calls);
        }
    }

    /// Waits until there is room to send a request.
    #[cold]
    fn post_later(
        &self,
        window: Option<&Limit>,
        what: (Kind, u16, u32),
        bytes: (usize, usize),
    ) -> Result<(), Error> {
        let shared = &*self.client.shared;
        let posted = shared.wait_for_room(self.limit().map(|(at, _)| at), |calls| {
            // The lock is held, so what has room now has it when the request is sent.
            let room = calls.can_send(self.index()) && window.is_none_or(|window| window.enter(calls));
            room.then(|| calls.send(self.index(), what, bytes))
        });
        posted.map_err(|ended| self.error_of(ended))?;
        shared.ring_after_all();
        Ok(())
    }

    /// When the call is given up, and after how long: its own deadline, or the connection's from now.
    fn limit(&self) -> Option<(Instant, Duration)> {
        if self.index & TIMED != 0 {
            return self.client.shared.calls().given_up(self.index());
        }
        self.client.shared.options().deadline.map(|deadline| (Instant::now() + deadline, deadline))
    }

    fn error_of(&self, ended: Ended) -> Error {
        let shared = &*self.client.shared;
        let given = shared.calls().given_up(self.index()).map(|(_, after)| after);
        shared.error_of(ended, given.or(shared.options().deadline).unwrap_or_default())
    }

    /// Waits for the answer, and sends again what is not answered for long if that is wanted.
    #[inline(always)]
    pub fn wait(&self) -> Result<Answer, Ended> {
        let options = self.client.shared.options();
        if options.deadline.is_none() && options.resend.is_none() && self.index & TIMED == 0 {
            let index = self.index();
            return self.client.shared.wait_until(index, None, |calls| calls.caller.answer(index));
        }
        let deadline = self.limit().map(|(at, _)| at);
        self.wait_until(deadline, options.resend)
    }

    fn wait_until(&self, deadline: Option<Instant>, resend: Option<Duration>) -> Result<Answer, Ended> {
        let shared = &*self.client.shared;
        loop {
            let again = resend.map(|resend| Instant::now() + resend);
            let until = deadline.into_iter().chain(again).min();
            match shared.wait_until(self.index(), until, |calls| calls.caller.answer(self.index())) {
                Err(Ended::TimeOver) if again.is_some() && until == again => {
                    shared.post_again(self.index());
                }
                ended => return ended,
            }
        }
    }
}

impl Drop for Slot<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let client = self.client;
        let mut calls = client.shared.calls();
        self.leave_window(&mut calls);
        calls.release(self.index());
        let sought = calls.is_room_sought();
        drop(calls);
        if sought {
            client.shared.tell_of_room();
        }
    }
}

impl<'c> Request<'c> {
    #[inline(always)]
    pub(super) fn new(client: &'c Client, length: usize, room: usize) -> Result<Self, Error> {
        let (slot, base) = Slot::reserve(client, length.max(room))?;
        Ok(Request { slot, base, length, room })
    }

    /// The bytes to write. What is in them at first is of a call before.
    #[inline(always)]
    pub fn body(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer is at least as long, and this request's.
        unsafe { ViewMut::new(self.base, self.length) }
    }

    /// How long this call may take from now, whatever deadline the connection has: until there is room for it, and until
    /// its answer is there, however that is waited for.
    pub fn set_deadline(&mut self, longest: Duration) {
        self.slot.client.shared.calls().set_deadline(self.slot.index(), longest);
        self.slot.index |= TIMED;
    }

    /// Calls, and waits for the answer.
    ///
    /// # Errors
    /// What the server says, that it is gone, or that the deadline is over.
    #[inline(always)]
    pub fn call(self, method: impl Into<Method>) -> Result<Response<'c>, Error> {
        self.start(method)?.wait()
    }

    /// Calls, and leaves the answer for later: [`Pending::wait`], or `.await`.
    ///
    /// # Errors
    /// If the window has no room until the deadline.
    #[inline(always)]
    pub fn start(mut self, method: impl Into<Method>) -> Result<Pending<'c>, Error> {
        self.slot.post_in_window(Kind::Call, method.into().0, self.length, self.room)?;
        Ok(Pending { slot: Some(self.slot) })
    }

    /// As [`start`](Request::start), if the window has room for it.
    ///
    /// # Errors
    /// The request itself, if it has none.
    pub fn try_start(mut self, method: impl Into<Method>) -> Result<Pending<'c>, Request<'c>> {
        let client = self.slot.client;
        let what = (Kind::Call, client.connection, method.into().0);
        match client.shared.post(self.slot.index(), what, (self.length, self.room), Some(&client.window)) {
            Ok(()) => {
                self.slot.index |= COUNTED;
                Ok(Pending { slot: Some(self.slot) })
            }
            Err(Full) => Err(self),
        }
    }

    /// As [`call`](Request::call), for tasks: neither waiting for room in the window nor for the answer holds up a thread.
    ///
    /// # Errors
    /// As [`call`](Request::call).
    pub async fn call_async(mut self, method: impl Into<Method>) -> Result<Response<'c>, Error> {
        let (method, bytes) = (method.into().0, (self.length, self.room));
        std::future::poll_fn(|context| self.slot.poll_post(context, method, bytes)).await?;
        Pending { slot: Some(self.slot) }.await
    }

    /// Calls, and is not interested in an answer.
    ///
    /// # Errors
    /// If the queue has no room until the deadline.
    pub fn send(mut self, method: impl Into<Method>) -> Result<(), Error> {
        self.slot.post(Kind::OneWay, method.into().0, self.length, self.room)
    }

    /// Calls for an answer in parts of up to the request's room each, of which `ahead` are asked for in advance.
    ///
    /// # Errors
    /// As [`call`](Request::call).
    pub fn stream(self, method: impl Into<Method>, ahead: usize) -> Result<Stream<'c>, Error> {
        Stream::open(self.slot, method.into(), (self.length, self.room), ahead)
    }
}

/// A call that is under way. Dropping it cancels the call: the answer goes nowhere.
#[must_use = "a call that nobody waits for is cancelled"]
pub struct Pending<'c> {
    /// Until it is answered.
    slot: Option<Slot<'c>>,
}

impl<'c> Pending<'c> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Request::call`].
    #[inline(always)]
    pub fn wait(mut self) -> Result<Response<'c>, Error> {
        let slot = self.slot.take().expect("it was not answered");
        let shared = &*slot.client.shared;
        let mut calls = shared.calls();
        // Each look at the queue takes the line that the server is about to write away from it: none without need.
        let others = calls.caller.answer(slot.index()).is_none() && calls.take_answers(slot.index());
        if !others && let Some(answer) = calls.caller.answer(slot.index()) {
            return finish_locked(slot, calls, Ok(answer), None);
        }
        drop(calls);
        if others {
            shared.tell_beside();
        }
        let answer = slot.wait();
        finish(slot, answer)
    }

    /// Waits for the answer for so long, whatever deadline the connection has. Then the call is cancelled.
    ///
    /// # Errors
    /// As [`Request::call`].
    pub fn wait_for(mut self, longest: Duration) -> Result<Response<'c>, Error> {
        let slot = self.slot.take().expect("it was not answered");
        let answer = slot.wait_until(Some(Instant::now() + longest), slot.client.shared.options().resend);
        finish_within(slot, answer, Some(longest))
    }

    /// The answer if it is there.
    ///
    /// # Errors
    /// As [`Request::call`]; the call itself if there is no answer yet.
    pub fn try_wait(mut self) -> Result<Result<Response<'c>, Error>, Pending<'c>> {
        let slot = self.slot.take().expect("it was not answered");
        let answer = slot.client.shared.glance(slot.index());
        match answer {
            Some(answer) => Ok(finish(slot, Ok(answer))),
            None => Err(Pending { slot: Some(slot) }),
        }
    }
}

#[inline(always)]
fn finish(slot: Slot<'_>, answer: Result<Answer, Ended>) -> Result<Response<'_>, Error> {
    finish_within(slot, answer, None)
}

/// `longest`: how long it was waited for at most, if that is not what the call or the connection says.
#[inline(always)]
fn finish_within(
    slot: Slot<'_>,
    answer: Result<Answer, Ended>,
    longest: Option<Duration>,
) -> Result<Response<'_>, Error> {
    let calls = slot.client.shared.calls();
    finish_locked(slot, calls, answer, longest)
}

#[inline(always)]
fn finish_locked<'c>(
    mut slot: Slot<'c>,
    mut calls: Guard<'_, Calls>,
    answer: Result<Answer, Ended>,
    longest: Option<Duration>,
) -> Result<Response<'c>, Error> {
    let shared = &*slot.client.shared;
    slot.leave_window(&mut calls);
    let base = calls.caller.buffer(slot.index()).base();
    let room = calls.caller.room(slot.index());
    let sought = calls.is_room_sought();
    drop(calls);
    if sought {
        shared.tell_of_room();
    }
    match answer {
        Ok(answer) if answer.status == Status::DONE => {
            Ok(Response { _slot: slot, base, length: answer.length as usize })
        }
        Ok(answer) => Err(Error::of_status(shared.peer(), answer.status, answer.length, room)),
        Err(ended) => Err(match longest {
            Some(longest) => shared.error_of(ended, longest),
            None => slot.error_of(ended),
        }),
    }
}

impl<'c> Future for Pending<'c> {
    type Output = Result<Response<'c>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let slot = this.slot.as_ref().expect("a future is not polled when it is done");
        let shared = &*slot.client.shared;
        let gone = shared.gone();
        let deadline = shared.calls().deadline(slot.index(), shared.options().deadline);
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let outcome = match shared.glance(slot.index()) {
            Some(answer) => Ok(answer),
            None if gone.is_some() => Err(Ended::Gone(gone.expect("just asked"))),
            None if over => Err(Ended::TimeOver),
            None => {
                let register = |calls: &mut Calls| {
                    let earlier = calls.register(slot.index(), context.waker(), deadline);
                    (calls.caller.answer(slot.index()), earlier)
                };
                let (answer, earlier) = register(&mut shared.calls());
                slot.client.reactor.attend(earlier)?;
                match answer {
                    Some(answer) => Ok(answer),
                    None => return Poll::Pending,
                }
            }
        };
        let slot = this.slot.take().expect("just used");
        Poll::Ready(finish(slot, outcome))
    }
}

/// An answer, in the memory where the server wrote it. Its buffer is used again when it is dropped.
pub struct Response<'c> {
    _slot: Slot<'c>,
    base: *mut u8,
    length: usize,
}

impl Response<'_> {
    /// What the server wrote.
    #[inline(always)]
    pub fn body(&self) -> View<'_> {
        // SAFETY: the buffer is at least as long, which was checked when the answer came, and this answer's.
        unsafe { View::new(self.base, self.length) }
    }
}
