//! Queue of the clients that ask a service for channels and were not accepted yet.

use super::channel_link::{ChannelGreeting, ChannelLink};
use super::error::Error;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Queue of offers that were not accepted yet.
#[derive(Default)]
pub(super) struct WaitingOffers {
    offers: Mutex<Offers>,
    changed: Condvar,
}

#[derive(Default)]
struct Offers {
    ended: bool,
    closed: bool,
    queue: VecDeque<(Arc<ChannelLink>, ChannelGreeting)>,
}

impl WaitingOffers {
    /// Adds an offer.
    pub(super) fn push(&self, link: Arc<ChannelLink>, greeting: ChannelGreeting) {
        self.offers().queue.push_back((link, greeting));
        self.changed.notify_one();
    }

    /// Ends the queue because the manager is gone.
    pub(super) fn end(&self) {
        self.offers().ended = true;
        self.changed.notify_all();
    }

    /// Ends the queue because the service accepts no more clients.
    pub(super) fn close(&self) {
        self.offers().closed = true;
        self.changed.notify_all();
    }

    /// Waits for an offer; see [`Service::accept`](super::Service::accept).
    pub(super) fn pop(
        &self,
        patience: Duration,
    ) -> Result<Option<(Arc<ChannelLink>, ChannelGreeting)>, Error> {
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

    /// Removes and returns all offers.
    pub(super) fn take_all(&self) -> VecDeque<(Arc<ChannelLink>, ChannelGreeting)> {
        std::mem::take(&mut self.offers().queue)
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
