//! A name that this process took, and those who ask for it.

use super::channel::{Channel, ChannelLink};
use super::{Error, Greeting, Inner, PATIENCE};
use crate::wire::{Accepted, MOST_PASSED, MOST_REASON, Peer, Refused, Request};
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A name of this process. It is free again when this is dropped; channels stay.
pub struct Service {
    client: Arc<Inner>,
    name: String,
    waiting: Arc<Waiting>,
}

impl Service {
    pub(super) fn register(client: Arc<Inner>, name: &str) -> Result<Service, Error> {
        let waiting = Arc::new(Waiting::default());
        // Offers may come before the reply was seen here.
        if !client.link.add_service(name, waiting.clone()) {
            return Err(Error::Registered(name.into()));
        }
        match client.ask(Request::Register { service: name.to_string() }) {
            Ok(_) => Ok(Service { client, name: name.to_string(), waiting }),
            Err(error) => {
                client.link.remove_service(name);
                Err(error)
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next who asks for a channel, waiting for ever if the patience is [`Duration::MAX`]; `None` if nobody does in time, or nobody is accepted any more.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn accept(&self, patience: Duration) -> Result<Option<Offer>, Error> {
        let taken = self.waiting.pop(patience)?;
        Ok(taken.map(|(link, greeting)| Offer { client: self.client.clone(), link: Some(link), greeting }))
    }

    /// From now on nobody is accepted: whoever waits in [`accept`](Service::accept) returns.
    pub fn close(&self) {
        self.waiting.close();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.client.link.give_up(Request::Withdraw { service: self.name.clone() });
        self.client.link.remove_service(&self.name);
        for (link, greeting) in self.waiting.take_all() {
            drop(Offer { client: self.client.clone(), link: Some(link), greeting });
        }
    }
}

/// Somebody asks for a channel. An offer that is dropped is refused.
pub struct Offer {
    client: Arc<Inner>,
    /// Until it is answered.
    link: Option<Arc<ChannelLink>>,
    greeting: Greeting,
}

impl Offer {
    pub fn peer(&self) -> &Peer {
        self.link().peer()
    }

    /// What the peer said, and passed.
    pub fn greeting(&mut self) -> &mut Greeting {
        &mut self.greeting
    }

    /// Takes the caller. `bell`: which of this process's bells it is to ring.
    ///
    /// # Errors
    /// If the caller or the manager is gone, or the greeting too long.
    pub fn accept(
        mut self,
        greeting: &[u8],
        bell: usize,
        passed: &[BorrowedFd<'_>],
    ) -> Result<Channel, Error> {
        if passed.len() > MOST_PASSED {
            return Err(Error::Descriptors);
        }
        self.link().set_own_bell(bell);
        let verdict = Ok(Accepted { greeting: greeting.to_vec(), bell: bell as u32 });
        let channel = self.link().id();
        self.client.link.ask(&Request::Answer { channel, verdict }, passed, PATIENCE)?;
        let link = self.link.take().expect("it was not answered");
        Ok(Channel::new(self.client.clone(), link))
    }

    /// Does not take the caller, for a reason that it is told.
    pub fn refuse(mut self, code: u32, reason: &str) {
        self.refuse_with(code, reason);
    }

    fn refuse_with(&mut self, code: u32, reason: &str) {
        let Some(link) = self.link.take() else { return };
        let most = MOST_REASON / char::MAX.len_utf8();
        let refused = Refused { code, text: reason.chars().take(most).collect() };
        self.client.link.remove_channel(&link);
        // If the caller left meanwhile, this side still has to be closed.
        let answer = Request::Answer { channel: link.id(), verdict: Err(refused) };
        self.client.link.give_up(answer);
        self.client.link.give_up(Request::Close { channel: link.id() });
    }

    fn link(&self) -> &ChannelLink {
        self.link.as_ref().expect("it was not answered")
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.refuse_with(0, "nobody answers");
    }
}

/// Offers that were not accepted yet.
#[derive(Default)]
pub struct Waiting {
    offers: Mutex<Offers>,
    changed: Condvar,
}

#[derive(Default)]
struct Offers {
    ended: bool,
    closed: bool,
    queue: VecDeque<(Arc<ChannelLink>, Greeting)>,
}

impl Waiting {
    pub fn push(&self, link: Arc<ChannelLink>, greeting: Greeting) {
        self.offers().queue.push_back((link, greeting));
        self.changed.notify_one();
    }

    /// The manager is gone.
    pub fn end(&self) {
        self.offers().ended = true;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.offers().closed = true;
        self.changed.notify_all();
    }

    fn pop(&self, patience: Duration) -> Result<Option<(Arc<ChannelLink>, Greeting)>, Error> {
        let deadline = Instant::now().checked_add(patience);
        let mut offers = self.offers();
        loop {
            if offers.closed {
                return Ok(None);
            }
            if let Some(offer) = offers.queue.pop_front() {
                return Ok(Some(offer));
            }
            if offers.ended {
                return Err(Error::ManagerGone);
            }
            offers = match deadline {
                None => self.changed.wait(offers).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    self.changed.wait_timeout(offers, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn take_all(&self) -> VecDeque<(Arc<ChannelLink>, Greeting)> {
        std::mem::take(&mut self.offers().queue)
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
