//! A call: its request, its answer, blocking or as a future.

use super::Client;
use super::calls::Calls;
use super::shared::Ended;
use super::slot::{Message, Slot};
use super::stream::Stream;
use crate::ends::Full;
use crate::error::Error;
use crate::method::Method;
use crate::queue::entry::Kind;
use crate::view::{View, ViewMut};
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A request that is being written, in the memory where the server will read it. One that is dropped was never made.
#[must_use = "a request does nothing until it is called, started or sent"]
pub struct Request<'c> {
    slot: Slot<'c>,
    base: NonNull<u8>,
    length: usize,
    room: usize,
}

// SAFETY: the buffer is this request's alone, and reached from any thread alike.
unsafe impl Send for Request<'_> {}
// SAFETY: a shared one only tells where it is.
unsafe impl Sync for Request<'_> {}
// SAFETY: the buffer is this answer's alone, and reached from any thread alike.
unsafe impl Send for Response<'_> {}
// SAFETY: a shared one gives views only, which copy what is read.
unsafe impl Sync for Response<'_> {}

impl<'c> Request<'c> {
    #[inline(always)]
    pub(super) fn new(client: &'c Client, length: usize, room: usize) -> Result<Self, Error> {
        let (slot, base) = Slot::reserve(client, length.max(room))?;
        Ok(Request { slot, base, length, room })
    }

    pub(super) async fn new_async(client: &'c Client, length: usize, room: usize) -> Result<Self, Error> {
        let (slot, base) = Slot::reserve_async(client, length.max(room)).await?;
        Ok(Request { slot, base, length, room })
    }

    /// The bytes to write. What is in them at first is of a call before.
    #[inline(always)]
    pub fn body(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer is at least as long, and this request's.
        unsafe { ViewMut::new(self.base.as_ptr(), self.length) }
    }

    /// How long this call may take from now, whatever deadline the connection has: until there is room for it, and until
    /// its answer is there, however that is waited for.
    pub fn set_deadline(&mut self, longest: Duration) {
        self.slot.set_deadline(longest);
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
        self.slot.post_in_window(method.into().0, (self.length, self.room))?;
        Ok(Pending { slot: Some(self.slot) })
    }

    /// As [`start`](Request::start), if the window has room for it.
    ///
    /// # Errors
    /// The request itself, if it has none.
    pub fn try_start(mut self, method: impl Into<Method>) -> Result<Pending<'c>, Request<'c>> {
        match self.slot.try_post(method.into().0, (self.length, self.room)) {
            Ok(()) => Ok(Pending { slot: Some(self.slot) }),
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
        self.slot.post(Kind::OneWay, method.into().0, (self.length, self.room))
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
        self.take().collect().map(Response::of)
    }

    /// Waits for the answer for so long, whatever deadline the connection has. Then the call is cancelled.
    ///
    /// # Errors
    /// As [`Request::call`].
    pub fn wait_for(mut self, longest: Duration) -> Result<Response<'c>, Error> {
        self.take().collect_within(longest).map(Response::of)
    }

    /// Waits for the answer for so long. A call that has none by then is still under way.
    ///
    /// # Errors
    /// As [`Request::call`]; the call itself if there is no answer yet.
    pub fn try_wait_for(mut self, longest: Duration) -> Result<Result<Response<'c>, Error>, Pending<'c>> {
        let slot = self.take();
        match slot.wait_for(longest) {
            Some(ended) => Ok(slot.finish(ended).map(Response::of)),
            None => Err(Pending { slot: Some(slot) }),
        }
    }

    /// The answer if it is there.
    ///
    /// # Errors
    /// As [`Request::call`]; the call itself if there is no answer yet.
    pub fn try_wait(mut self) -> Result<Result<Response<'c>, Error>, Pending<'c>> {
        let slot = self.take();
        match slot.client.shared.glance(slot.index()) {
            true => Ok(slot.finish(Ok(())).map(Response::of)),
            false => Err(Pending { slot: Some(slot) }),
        }
    }

    #[inline(always)]
    fn take(&mut self) -> Slot<'c> {
        self.slot.take().expect("it was not answered")
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
        let ended = match gone {
            _ if shared.glance(slot.index()) => Ok(()),
            Some(cause) => Err(Ended::Gone(cause)),
            None if over => Err(Ended::TimeOver),
            None => {
                let register = |calls: &mut Calls| {
                    let earlier = calls.register(slot.index(), context.waker(), deadline);
                    (calls.answered(slot.index()).is_some(), earlier)
                };
                let (answered, earlier) = register(&mut shared.calls());
                slot.client.reactor.attend(earlier)?;
                if !answered {
                    return Poll::Pending;
                }
                Ok(())
            }
        };
        Poll::Ready(this.take().finish(ended).map(Response::of))
    }
}

/// An answer, in the memory where the server wrote it. Its buffer is used again when it is dropped.
pub struct Response<'c> {
    _slot: Slot<'c>,
    base: NonNull<u8>,
    length: usize,
}

impl<'c> Response<'c> {
    #[inline(always)]
    fn of((slot, (base, length)): (Slot<'c>, Message)) -> Self {
        Response { _slot: slot, base, length }
    }

    /// What the server wrote.
    #[inline(always)]
    pub fn body(&self) -> View<'_> {
        // SAFETY: the buffer is at least as long, which was checked when the answer came, and this answer's.
        unsafe { View::new(self.base.as_ptr(), self.length) }
    }
}
