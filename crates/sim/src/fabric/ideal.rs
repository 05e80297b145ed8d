//! `ideal`: no fabric can have a lower mean completion time on the same star.
//!
//! A message's data must leave by its sender's link and come in by its receiver's, each of which
//! carries one byte at a time. Here it has to pass only **one** of the two, the one with more work
//! before it when the data becomes ready; everything else is free: the switch, the other link, the
//! requests of other reads. The link serves the message with the least left to send, and preempts.
//!
//! Why this is a lower bound of the mean over any set of messages (open loop): look at the messages
//! that were held to one given link. In every fabric that link carries them one byte at a time, none
//! before its data can be there; and no order of service on one link has a lower sum of completion
//! times than shortest-remaining-first (Schrage 1968). The sum over links is the sum over messages.
//! It is a bound of the mean, not of each message: a long one may do better elsewhere.
//!
//! Cut-through: the last bit arrives one crossing after it left.

use super::Fabric;
use crate::engine::{Core, Observer};
use crate::network::{Pace, Star};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// The lower bound on a star.
pub struct Ideal {
    pace: Pace,
    crossing: Time,
    /// Sending sides of all nodes, then receiving sides.
    lanes: Vec<Lane>,
}

#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The request of a read has come to the memory node: the answer can start.
    Ready(MessageId),
    /// The service under way on a lane ends, unless it was preempted since.
    Served {
        lane: u32,
        service: u32,
    },
    Delivered(MessageId),
}

/// One direction of one host link, served shortest-remaining-first.
#[derive(Default)]
struct Lane {
    current: Option<Service>,
    /// Counts services begun, to know those that were preempted.
    service: u32,
    waiting: BinaryHeap<Reverse<(Time, MessageId)>>,
    waiting_work: Time,
}

#[derive(Clone, Copy)]
struct Service {
    id: MessageId,
    until: Time,
}

impl Ideal {
    pub fn new(star: &Star) -> Ideal {
        let lanes = (0..2 * star.nodes).map(|_| Lane::default()).collect();
        Ideal { pace: star.pace(), crossing: star.crossing(), lanes }
    }

    /// From submission until the data can start: nothing for a write; for a read, the request's way.
    fn until_ready(&self, message: &Message) -> Time {
        match message.kind.is_answered() {
            true => self.pace.transmit(message.request as u64) + self.crossing,
            false => Time::ZERO,
        }
    }

    fn ready<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = core.message(id);
        let (bytes, now) = (message.bytes, core.now());
        let nodes = self.lanes.len() / 2;
        let (sending, receiving) = (message.data_src() as usize, nodes + message.data_dst() as usize);
        let busier = self.lanes[receiving].work(now) >= self.lanes[sending].work(now);
        let lane = if busier { receiving } else { sending };
        core.sent(bytes);
        self.lanes[lane].add(id, self.pace.transmit(bytes), now);
        self.serve(core, lane);
    }

    /// Schedules the end of the service that is under way on `lane`, if it is new.
    fn serve<O: Observer>(&mut self, core: &mut Core<Event, O>, lane: usize) {
        if let Some((service, until)) = self.lanes[lane].begin(core.now()) {
            core.schedule(until, Event::Served { lane: lane as u32, service });
        }
    }
}

impl Fabric for Ideal {
    type Event = Event;

    fn name(&self) -> &'static str {
        "ideal"
    }

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        match message.kind.is_answered() {
            true => {
                core.sent(message.request as u64);
                core.hops(2);
                core.schedule(core.now() + self.until_ready(&message), Event::Ready(id));
            }
            false => self.ready(core, id),
        }
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Ready(id) => {
                core.arrived(core.message(id).request as u64);
                self.ready(core, id);
            }
            Event::Served { lane, service } => {
                let lane = lane as usize;
                if let Some(id) = self.lanes[lane].end(service) {
                    core.schedule(core.now() + self.crossing, Event::Delivered(id));
                    self.serve(core, lane);
                }
            }
            Event::Delivered(id) => {
                core.hops(2);
                core.arrived(core.message(id).bytes);
                core.complete(id);
            }
        }
    }

    fn unloaded(&self, message: &Message) -> Time {
        self.until_ready(message) + self.pace.transmit(message.bytes) + self.crossing
    }
}

impl Lane {
    /// Transmission time of all that is here and not yet sent.
    fn work(&self, now: Time) -> Time {
        self.waiting_work + self.current.map_or(Time::ZERO, |service| service.until - now)
    }

    /// Takes in a message; the one being served goes back to wait if it has more left.
    fn add(&mut self, id: MessageId, work: Time, now: Time) {
        if let Some(current) = self.current
            && current.until - now > work
        {
            self.wait(current.id, current.until - now);
            self.current = None;
        }
        self.wait(id, work);
    }

    fn wait(&mut self, id: MessageId, work: Time) {
        self.waiting.push(Reverse((work, id)));
        self.waiting_work += work;
    }

    /// Starts the message with the least left if none is served: (service, its end).
    fn begin(&mut self, now: Time) -> Option<(u32, Time)> {
        if self.current.is_some() {
            return None;
        }
        let Reverse((work, id)) = self.waiting.pop()?;
        self.waiting_work = self.waiting_work - work;
        self.service = self.service.wrapping_add(1);
        self.current = Some(Service { id, until: now + work });
        Some((self.service, now + work))
    }

    /// Ends the service of that number; `None` if it was preempted.
    fn end(&mut self, service: u32) -> Option<MessageId> {
        if service != self.service {
            return None;
        }
        self.current.take().map(|service| service.id)
    }
}
