//! A call: its request, its answer, blocking or as a future.

use super::Client;
use super::shared::{self, Calls, Ended};
use super::stream::Stream;
use crate::error::Error;
use crate::method::Method;
use crate::queue::entry::{Answer, Kind};
use crate::view::{View, ViewMut};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A request that is being written, in the memory where the server will read it. One that is dropped was never made.
#[must_use = "a request does nothing until it is called, started or sent"]
pub struct Request<'c> {
    slot: Slot<'c>,
    length: usize,
    room: usize,
}

/// A slot of the queues, with its buffer, given back when it is dropped.
pub(super) struct Slot<'c> {
    pub client: &'c Client,
    pub index: u16,
    pub base: *mut u8,
    /// It counts in the window.
    counted: bool,
}

// SAFETY: the buffer is this slot's alone, and reached from any thread alike.
unsafe impl Send for Slot<'_> {}
// SAFETY: a shared one only tells where it is.
unsafe impl Sync for Slot<'_> {}

impl<'c> Slot<'c> {
    pub fn reserve(client: &'c Client, bytes: usize) -> Result<Slot<'c>, Error> {
        let deadline = client.shared.options().deadline.map(|deadline| Instant::now() + deadline);
        let (index, base) = client.shared.reserve(bytes, deadline)?;
        Ok(Slot { client, index, base, counted: false })
    }

    /// Sends a request, and rings if the server sleeps.
    #[inline]
    pub fn post(&mut self, kind: Kind, method: u32, length: usize, room: usize) -> Result<(), Error> {
        let shared = &*self.client.shared;
        let what = (kind, self.client.connection, method);
        if shared.post(self.index, what, length, room).is_err() {
            let deadline = shared.options().deadline.map(|deadline| Instant::now() + deadline);
            let posted =
                shared.wait_until(shared::NOBODY, deadline, |calls| (!calls.caller.is_full()).then_some(()));
            posted.map_err(|ended| shared.error_of(ended, shared.options().deadline.unwrap_or_default()))?;
            return self.post(kind, method, length, room);
        }
        Ok(())
    }

    /// Waits for the window to have room.
    pub fn enter_window(&mut self) -> Result<(), Error> {
        if !self.client.window.enter() {
            let shared = &*self.client.shared;
            let deadline = shared.options().deadline.map(|deadline| Instant::now() + deadline);
            let entered =
                shared.wait_until(shared::NOBODY, deadline, |_| self.client.window.enter().then_some(()));
            entered.map_err(|ended| shared.error_of(ended, shared.options().deadline.unwrap_or_default()))?;
        }
        self.counted = true;
        Ok(())
    }

    pub fn leave_window(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.client.window.leave();
        }
    }

    /// Waits for the answer, and sends again what is not answered for long if that is wanted.
    #[inline]
    pub fn wait(&self) -> Result<Answer, Ended> {
        let options = self.client.shared.options();
        if options.deadline.is_none() && options.resend.is_none() {
            return self.client.shared.wait_until(self.index, None, |calls| calls.caller.answer(self.index));
        }
        let now = Instant::now();
        self.wait_until(options.deadline.map(|deadline| now + deadline), options.resend)
    }

    fn wait_until(&self, deadline: Option<Instant>, resend: Option<Duration>) -> Result<Answer, Ended> {
        let shared = &*self.client.shared;
        loop {
            let again = resend.map(|resend| Instant::now() + resend);
            let until = deadline.into_iter().chain(again).min();
            match shared.wait_until(self.index, until, |calls| calls.caller.answer(self.index)) {
                Err(Ended::TimeOver) if again.is_some() && until == again => {
                    shared.post_again(self.index);
                }
                ended => return ended,
            }
        }
    }
}

impl Drop for Slot<'_> {
    #[inline]
    fn drop(&mut self) {
        self.leave_window();
        self.client.shared.calls().release(self.index);
    }
}

impl<'c> Request<'c> {
    #[inline]
    pub(super) fn new(client: &'c Client, length: usize, room: usize) -> Result<Self, Error> {
        Ok(Request { slot: Slot::reserve(client, length.max(room))?, length, room })
    }

    /// The bytes to write. What is in them at first is of a call before.
    #[inline]
    pub fn body(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer is at least as long, and this request's.
        unsafe { ViewMut::new(self.slot.base, self.length) }
    }

    /// Calls, and waits for the answer.
    ///
    /// # Errors
    /// What the server says, that it is gone, or that the deadline is over.
    #[inline]
    pub fn call(self, method: impl Into<Method>) -> Result<Response<'c>, Error> {
        self.start(method)?.wait()
    }

    /// Calls, and leaves the answer for later: [`Pending::wait`], or `.await`.
    ///
    /// # Errors
    /// If the window has no room until the deadline.
    #[inline]
    pub fn start(mut self, method: impl Into<Method>) -> Result<Pending<'c>, Error> {
        self.slot.enter_window()?;
        self.slot.post(Kind::Call, method.into().0, self.length, self.room)?;
        Ok(Pending { slot: Some(self.slot), room: self.room, deadline: None })
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
    room: usize,
    /// For whoever awaits it.
    deadline: Option<Instant>,
}

impl<'c> Pending<'c> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// As [`Request::call`].
    #[inline]
    pub fn wait(mut self) -> Result<Response<'c>, Error> {
        let slot = self.slot.take().expect("it was not answered");
        let answer = slot.wait();
        finish(slot, answer, self.room)
    }

    /// The answer if it is there.
    ///
    /// # Errors
    /// As [`Request::call`]; the call itself if there is no answer yet.
    pub fn try_wait(mut self) -> Result<Result<Response<'c>, Error>, Pending<'c>> {
        let slot = self.slot.take().expect("it was not answered");
        let answer = slot.client.shared.glance(slot.index);
        match answer {
            Some(answer) => Ok(finish(slot, Ok(answer), self.room)),
            None => Err(Pending { slot: Some(slot), ..self }),
        }
    }
}

#[inline]
fn finish(mut slot: Slot<'_>, answer: Result<Answer, Ended>, room: usize) -> Result<Response<'_>, Error> {
    slot.leave_window();
    let shared = &*slot.client.shared;
    let answer =
        answer.map_err(|ended| shared.error_of(ended, shared.options().deadline.unwrap_or_default()))?;
    shared::check(shared.peer(), &answer, room)?;
    Ok(Response { length: answer.length as usize, slot })
}

impl<'c> Future for Pending<'c> {
    type Output = Result<Response<'c>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let slot = this.slot.as_ref().expect("a future is not polled when it is done");
        let shared = &*slot.client.shared;
        let deadline = shared.options().deadline;
        if this.deadline.is_none() && deadline.is_some() {
            this.deadline = deadline.map(|deadline| Instant::now() + deadline);
        }
        let gone = shared.gone();
        let over = this.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let outcome = match shared.glance(slot.index) {
            Some(answer) => Ok(answer),
            None if gone.is_some() => Err(Ended::Gone(gone.expect("just asked"))),
            None if over => Err(Ended::TimeOver),
            None => {
                let register = |calls: &mut Calls| {
                    let earlier = calls.register(slot.index, context.waker(), this.deadline);
                    (calls.caller.answer(slot.index), earlier)
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
        Poll::Ready(finish(slot, outcome, this.room))
    }
}

/// An answer, in the memory where the server wrote it. Its buffer is used again when it is dropped.
pub struct Response<'c> {
    slot: Slot<'c>,
    length: usize,
}

impl Response<'_> {
    /// What the server wrote.
    #[inline]
    pub fn body(&self) -> View<'_> {
        // SAFETY: the buffer is at least as long, which was checked when the answer came, and this answer's.
        unsafe { View::new(self.slot.base, self.length) }
    }
}
