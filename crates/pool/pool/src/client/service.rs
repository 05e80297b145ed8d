//! Service of this process: a registered name, and the clients that ask it for channels.

use super::channel::Channel;
use super::channel_link::{ChannelGreeting, ChannelLink};
use super::connect::PATIENCE;
use super::error::Error;
use super::inner::ManagerConnection;
use super::offers::WaitingOffers;
use crate::wire::{Accepted, MOST_PASSED, MOST_REASON, PeerProcess, RefusedCaller, Request};
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A registered name. Dropping the service frees the name; channels that it accepted stay open.
pub struct Service {
    client: Arc<ManagerConnection>,
    name: String,
    waiting: Arc<WaitingOffers>,
}

impl Service {
    pub(super) fn register(client: Arc<ManagerConnection>, name: &str) -> Result<Service, Error> {
        client.link.maker().check()?;
        let waiting = Arc::new(WaitingOffers::default());
        // The service is added first because offers may arrive before this thread has seen the reply.
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

    /// Returns the service's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the next client that asks for a channel; a patience of [`Duration::MAX`] waits for ever. Returns
    /// `None` if no client asks in time, or the service was closed.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn accept(&self, patience: Duration) -> Result<Option<Offer>, Error> {
        self.client.link.maker().check()?;
        let taken = self.waiting.pop(patience)?;
        Ok(taken.map(|(link, greeting)| Offer { client: self.client.clone(), link: Some(link), greeting }))
    }

    /// Closes the service to further clients, so that threads that wait in [`accept`](Service::accept) return.
    pub fn close(&self) {
        if self.client.link.maker().is_here() {
            self.waiting.close();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if !self.client.link.maker().is_here() {
            return;
        }
        self.client.link.give_up(Request::Withdraw { service: self.name.clone() });
        self.client.link.remove_service(&self.name);
        for (link, greeting) in self.waiting.take_all() {
            drop(Offer { client: self.client.clone(), link: Some(link), greeting });
        }
    }
}

/// Request of a client for a channel. Dropping an offer refuses the request.
pub struct Offer {
    client: Arc<ManagerConnection>,
    /// This process's side of the channel, until the offer is answered.
    link: Option<Arc<ChannelLink>>,
    greeting: ChannelGreeting,
}

impl Offer {
    /// Returns the client that asks for the channel.
    pub fn peer(&self) -> &PeerProcess {
        self.link().peer()
    }

    /// Returns the client's greeting, with the descriptors that the client passed.
    pub fn greeting(&mut self) -> &mut ChannelGreeting {
        &mut self.greeting
    }

    /// Accepts the client. `wakeup` is the index of this process's wakeup by which the client must wake it.
    ///
    /// # Errors
    /// If the client or the manager is gone, or the greeting is too long.
    pub fn accept(
        mut self,
        greeting: &[u8],
        wakeup: usize,
        passed: &[BorrowedFd<'_>],
    ) -> Result<Channel, Error> {
        if passed.len() > MOST_PASSED {
            return Err(Error::Descriptors);
        }
        self.link().set_own_wakeup(wakeup);
        let verdict = Ok(Accepted { greeting: greeting.to_vec(), wakeup: wakeup as u32 });
        let channel = self.link().id();
        self.client.link.ask(&Request::Answer { channel, verdict }, passed, PATIENCE)?;
        let link = self.link.take().expect("it was not answered");
        Ok(Channel::new(self.client.clone(), link))
    }

    /// Refuses the client. The client receives the code and the reason.
    pub fn refuse(mut self, code: u32, reason: &str) {
        self.refuse_with(code, reason);
    }

    fn refuse_with(&mut self, code: u32, reason: &str) {
        let Some(link) = self.link.take() else { return };
        let most = MOST_REASON / char::MAX.len_utf8();
        let refused = RefusedCaller { code, text: reason.chars().take(most).collect() };
        self.client.link.remove_channel(&link);
        // If the client left meanwhile, the manager denies the answer, so this side must still be closed.
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
        self.refuse_with(0, "no process answers");
    }
}
