//! Context in which a client's calls run: the client's identity and its open streams.

use super::call::{Call, CallOutcome, CallRefusal, Memory};
use super::methods::{Handler, Methods, PartSource};
use crate::ends::IncomingCall;
use crate::queue::entry::{EntryStatus, Kind};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use unrack_pool::wire::PeerProcess;

/// A client, over a pool or over TCP, as its calls see it.
pub(crate) struct ClientContext {
    peer: PeerProcess,
    client: u64,
    /// Open streams, by the slot on which each was opened.
    streams: HashMap<u16, PartSource>,
}

impl ClientContext {
    /// Makes the desk of the client with number `client`.
    pub(crate) fn new(peer: PeerProcess, client: u64) -> ClientContext {
        ClientContext { peer, client, streams: HashMap::new() }
    }

    /// Returns the client's number.
    pub(crate) fn client(&self) -> u64 {
        self.client
    }

    /// Runs a call to its end.
    ///
    /// # Safety
    /// The call's buffer is in `memory`, and no other code in this process uses it.
    #[inline(always)]
    pub(crate) unsafe fn run(
        &mut self,
        incoming: &IncomingCall,
        memory: &dyn Memory,
        methods: &Methods,
    ) -> CallOutcome {
        let request = &incoming.request;
        match request.kind {
            Kind::Call | Kind::OneWay => match methods.get(request.method) {
                Some(Handler::Plain(handler)) => {
                    self.handle(incoming, memory, |call| handler(call).map(|()| EntryStatus::DONE))
                }
                _ => CallOutcome::from_status(EntryStatus::UNKNOWN_METHOD),
            },
            Kind::Open => self.open(incoming, memory, methods),
            Kind::Next => self.next(incoming, memory),
            Kind::Close => {
                self.streams.remove(&(request.method as u16));
                CallOutcome::from_status(EntryStatus::DONE)
            }
        }
    }

    #[inline(always)]
    fn handle(
        &self,
        incoming: &IncomingCall,
        memory: &dyn Memory,
        handler: impl FnOnce(&mut Call<'_>) -> Result<EntryStatus, CallRefusal>,
    ) -> CallOutcome {
        // SAFETY: the caller of `run` guarantees it.
        unsafe { run_handler(incoming, memory, (&self.peer, self.client), handler) }
    }

    fn open(&mut self, incoming: &IncomingCall, memory: &dyn Memory, methods: &Methods) -> CallOutcome {
        let Some(Handler::Stream(handler)) = methods.get(incoming.request.method) else {
            return CallOutcome::from_status(EntryStatus::UNKNOWN_METHOD);
        };
        let mut source = None;
        let outcome = self.handle(incoming, memory, |call| {
            let mut opened = handler(call)?;
            let more = opened(call)?;
            source = more.then_some(opened);
            Ok(if more { EntryStatus::MORE } else { EntryStatus::DONE })
        });
        match source {
            Some(source) => drop(self.streams.insert(incoming.request.slot, source)),
            None => drop(self.streams.remove(&incoming.request.slot)),
        }
        outcome
    }

    fn next(&mut self, incoming: &IncomingCall, memory: &dyn Memory) -> CallOutcome {
        let stream = incoming.request.method as u16;
        let Some(mut source) = self.streams.remove(&stream) else {
            return CallOutcome::from_status(EntryStatus::NO_STREAM);
        };
        let outcome = self.handle(incoming, memory, |call| {
            Ok(if source(call)? { EntryStatus::MORE } else { EntryStatus::DONE })
        });
        if outcome.status() == EntryStatus::MORE {
            self.streams.insert(stream, source);
        }
        outcome
    }
}

/// Runs a handler, and returns its outcome. A panic of the handler fails only this call.
///
/// # Safety
/// As for [`ClientContext::run`].
#[inline]
pub(super) unsafe fn run_handler(
    incoming: &IncomingCall,
    memory: &dyn Memory,
    client: (&PeerProcess, u64),
    handler: impl FnOnce(&mut Call<'_>) -> Result<EntryStatus, CallRefusal>,
) -> CallOutcome {
    // SAFETY: the caller guarantees it.
    let mut call = unsafe { Call::new(incoming, memory, client) };
    match catch_unwind(AssertUnwindSafe(|| handler(&mut call))) {
        Ok(ended) => call.outcome(ended),
        Err(_) => call.outcome(Ok(EntryStatus::FAILED)),
    }
}
