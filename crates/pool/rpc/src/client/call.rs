//! A call: its request and its answer, blocking or as a future.

use super::calls::PendingCalls;
use super::connection::Connection;
use super::shared::{Message, WaitFailure};
use super::slot::Slot;
use super::stream::Stream;
use crate::ends::QueueFull;
use crate::error::Error;
use crate::method::Method;
use crate::queue::entry::Kind;
use crate::view::{View, ViewMut};
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A request that is being written, in the memory from which the server will read it. Dropping it makes no call.
#[must_use = "a request does nothing until it is called, started or sent"]
pub struct Request<'c> {
    slot: Slot<'c>,
    base: NonNull<u8>,
    length: usize,
    room: usize,
}

// SAFETY: only this request uses the buffer, and any thread may use it.
unsafe impl Send for Request<'_> {}
// SAFETY: a shared reference exposes nothing but the address of the buffer.
unsafe impl Sync for Request<'_> {}
// SAFETY: only this answer uses the buffer, and any thread may use it.
unsafe impl Send for Response<'_> {}
// SAFETY: a shared reference exposes only views, which copy the bytes that are read.
unsafe impl Sync for Response<'_> {}

impl<'c> Request<'c> {
    #[inline(always)]
    pub(super) fn new(connection: &'c Connection, length: usize, room: usize) -> Result<Self, Error> {
        let (slot, base) = Slot::reserve(connection, length.max(room))?;
        Ok(Request { slot, base, length, room })
    }

    pub(super) fn new_within(
        connection: &'c Connection,
        length: usize,
        room: usize,
        longest: Duration,
    ) -> Result<Self, Error> {
        let (slot, base) = Slot::reserve_within(connection, length.max(room), longest)?;
        Ok(Request { slot, base, length, room })
    }

    pub(super) async fn new_async(
        connection: &'c Connection,
        length: usize,
        room: usize,
    ) -> Result<Self, Error> {
        let (slot, base) = Slot::reserve_async(connection, length.max(room)).await?;
        Ok(Request { slot, base, length, room })
    }

    /// Returns the bytes of the request, to be written. At first they contain bytes of an earlier call.
    #[inline(always)]
    pub fn body(&mut self) -> ViewMut<'_> {
        // SAFETY: the buffer is at least as long, and belongs to this request.
        unsafe { ViewMut::new(self.base.as_ptr(), self.length) }
    }

    /// Sets how long this call may take from now, regardless of the connection's deadline. The time includes the wait
    /// for room and for the answer, whether the wait blocks or not.
    pub fn set_deadline(&mut self, longest: Duration) {
        self.slot.set_deadline(longest);
    }

    /// Makes the call and waits for the answer.
    ///
    /// # Errors
    /// The server's error, or an error if the server is gone or the deadline is over.
    #[inline(always)]
    pub fn call(self, method: impl Into<Method>) -> Result<Response<'c>, Error> {
        self.start(method)?.wait()
    }

    /// Makes the call without waiting for the answer, which [`Pending::wait`] or `.await` returns later.
    ///
    /// # Errors
    /// If the window still has no room at the deadline.
    #[inline(always)]
    pub fn start(mut self, method: impl Into<Method>) -> Result<PendingCall<'c>, Error> {
        self.slot.post(Kind::Call, method.into().0, (self.length, self.room))?;
        Ok(PendingCall { slot: Some(self.slot) })
    }

    /// Makes the call as [`start`](Request::start) does, but only if the window has room for it now.
    ///
    /// # Errors
    /// Returns the request itself if there is no room.
    pub fn try_start(mut self, method: impl Into<Method>) -> Result<PendingCall<'c>, Request<'c>> {
        match self.slot.try_post(method.into().0, (self.length, self.room)) {
            Ok(()) => Ok(PendingCall { slot: Some(self.slot) }),
            Err(QueueFull) => Err(self),
        }
    }

    /// Makes the call as [`call`](Request::call) does, but does not block the thread while it waits for room in the
    /// window or for the answer.
    ///
    /// # Errors
    /// As for [`call`](Request::call).
    pub async fn call_async(mut self, method: impl Into<Method>) -> Result<Response<'c>, Error> {
        let (method, bytes) = (method.into().0, (self.length, self.room));
        std::future::poll_fn(|context| self.slot.poll_post(context, method, bytes)).await?;
        PendingCall { slot: Some(self.slot) }.await
    }

    /// Makes a one-way call: the server runs it, but the caller receives no answer.
    ///
    /// # Errors
    /// If the queue still has no room at the deadline.
    pub fn send(mut self, method: impl Into<Method>) -> Result<(), Error> {
        self.slot.post(Kind::OneWay, method.into().0, (self.length, self.room))
    }

    /// Makes the call for an answer in parts. Each part may be as long as the request's room for the answer, and
    /// `ahead` parts are requested in advance.
    ///
    /// # Errors
    /// As for [`call`](Request::call).
    pub fn stream(self, method: impl Into<Method>, ahead: usize) -> Result<Stream<'c>, Error> {
        Stream::open(self.slot, method.into(), (self.length, self.room), ahead)
    }
}

/// A call that is under way. Dropping it cancels the call: the answer is discarded.
#[must_use = "a call that is dropped is cancelled: wait for its answer"]
pub struct PendingCall<'c> {
    /// Slot of the call, until the call is answered.
    slot: Option<Slot<'c>>,
}

impl<'c> PendingCall<'c> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// As for [`Request::call`].
    #[inline(always)]
    pub fn wait(mut self) -> Result<Response<'c>, Error> {
        self.take().collect().map(Response::new)
    }

    /// Waits for the answer for at most `longest`, regardless of the connection's deadline. If no answer has come by
    /// then, the call is cancelled.
    ///
    /// # Errors
    /// As for [`Request::call`].
    pub fn wait_for(mut self, longest: Duration) -> Result<Response<'c>, Error> {
        self.take().collect_within(longest).map(Response::new)
    }

    /// Waits for the answer for at most `longest`. If no answer has come by then, the call remains in flight.
    ///
    /// # Errors
    /// As for [`Request::call`]; returns the call itself if there is no answer yet.
    pub fn try_wait_for(mut self, longest: Duration) -> Result<Result<Response<'c>, Error>, PendingCall<'c>> {
        let slot = self.take();
        match slot.wait_for(longest) {
            Some(ended) => Ok(slot.finish(ended).map(Response::new)),
            None => Err(PendingCall { slot: Some(slot) }),
        }
    }

    /// Returns the answer if it has come.
    ///
    /// # Errors
    /// As for [`Request::call`]; returns the call itself if there is no answer yet.
    pub fn try_wait(mut self) -> Result<Result<Response<'c>, Error>, PendingCall<'c>> {
        let slot = self.take();
        if !slot.connection.shared.is_here() {
            return Ok(slot.finish(Err(WaitFailure::Forked)).map(Response::new));
        }
        match slot.connection.shared.glance(slot.index()) {
            true => Ok(slot.finish(Ok(())).map(Response::new)),
            false => Err(PendingCall { slot: Some(slot) }),
        }
    }

    #[inline(always)]
    fn take(&mut self) -> Slot<'c> {
        self.slot.take().expect("it was not answered")
    }
}

impl<'c> Future for PendingCall<'c> {
    type Output = Result<Response<'c>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let slot = this.slot.as_ref().expect("a future is not polled when it is done");
        let shared = &*slot.connection.shared;
        if !shared.is_here() {
            return Poll::Ready(this.take().finish(Err(WaitFailure::Forked)).map(Response::new));
        }
        let gone = shared.gone();
        let deadline = shared.calls().deadline(slot.index(), shared.options().deadline);
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let ended = match gone {
            _ if shared.glance(slot.index()) => Ok(()),
            Some(cause) => Err(WaitFailure::Gone(cause)),
            None if over => Err(WaitFailure::TimeOver),
            None => {
                let register = |calls: &mut PendingCalls| {
                    let earlier = calls.register(slot.index(), context.waker(), deadline);
                    (calls.answered(slot.index()).is_some(), earlier)
                };
                let (answered, earlier) = register(&mut shared.calls());
                slot.connection.reactor.attend(earlier)?;
                if !answered {
                    return Poll::Pending;
                }
                Ok(())
            }
        };
        Poll::Ready(this.take().finish(ended).map(Response::new))
    }
}

/// An answer, in the memory to which the server wrote it. Dropping it makes its buffer available again.
pub struct Response<'c> {
    _slot: Slot<'c>,
    base: NonNull<u8>,
    length: usize,
}

impl<'c> Response<'c> {
    #[inline(always)]
    fn new((slot, (base, length)): (Slot<'c>, Message)) -> Self {
        Response { _slot: slot, base, length }
    }

    /// Returns the bytes that the server wrote.
    #[inline(always)]
    pub fn body(&self) -> View<'_> {
        // SAFETY: the buffer belongs to this answer and is at least this long, which was checked when the answer came.
        unsafe { View::new(self.base.as_ptr(), self.length) }
    }
}
