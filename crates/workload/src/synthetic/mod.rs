//! Synthetic traffic, open loop: messages come at their times whatever the fabric does.
//!
//! Every sender draws its own arrivals, kinds, sizes and destinations, each from a generator of its
//! own. **Load** is the payload offered to the busiest direction of any host link, requests
//! included, over that link's rate.

mod pattern;

pub use pattern::Pattern;

use self::pattern::Partners;
use crate::error::WorkloadError;
use crate::message::{Kind, Message, READ_REQUEST_BYTES};
use crate::random::{Purpose, generator, unit};
use crate::size::Size;
use crate::source::{Outbox, Source};
use crate::trace::Blades;
use rand_pcg::Pcg64Mcg;
use unrack_units::{Rate, Time};

/// What synthetic traffic looks like.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticSpec {
    pub traffic: Traffic,
    pub size: Size,
    pub pattern: Pattern,
    /// Which nodes ask and which hold memory. `None`: every node does both.
    pub blades: Option<Blades>,
    pub arrivals: Arrivals,
    /// Above 0, at most 1.
    pub load: f64,
    pub messages: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Traffic {
    /// Reads and writes.
    Memory {
        read_fraction: f64,
        request: u32,
    },
    Flows,
}

impl Traffic {
    /// Reads with a request of 8 bytes (EDM §2.3), and writes.
    pub fn memory(read_fraction: f64) -> Traffic {
        Traffic::Memory { read_fraction, request: READ_REQUEST_BYTES }
    }
}

/// Times between the messages of one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential.
    Poisson,
    /// All the same, each sender with a phase of its own.
    Fixed,
}

/// The source of synthetic traffic.
pub struct Synthetic {
    spec: SyntheticSpec,
    partners: Partners,
    mean_gap_ps: f64,
    senders: Vec<Sender>,
    submitted: u64,
}

struct Sender {
    arrivals: Pcg64Mcg,
    kinds: Pcg64Mcg,
    sizes: Pcg64Mcg,
    destinations: Pcg64Mcg,
}

impl Synthetic {
    /// Traffic among `nodes` nodes on links of `rate`.
    pub fn new(spec: SyntheticSpec, nodes: u32, rate: Rate, seed: u64) -> Result<Synthetic, WorkloadError> {
        spec.check()?;
        let partners = Partners::new(spec.pattern, spec.blades, nodes, seed)?;
        let bytes_per_ps = rate.as_bps() as f64 / 8e12;
        let (out, back) = spec.bytes_per_message();
        let mean_gap_ps = partners.busiest(out, back) / (spec.load * bytes_per_ps);
        let senders = partners.sources.clone().map(|node| Sender::new(seed, node)).collect();
        Ok(Synthetic { spec, partners, mean_gap_ps, senders, submitted: 0 })
    }

    /// Mean time between two messages of one sender.
    pub fn mean_gap(&self) -> Time {
        Time::from_ps(self.mean_gap_ps.round() as u64)
    }

    fn gap(&mut self, sender: u32) -> Time {
        let draw = match self.spec.arrivals {
            Arrivals::Poisson => -(1.0 - unit(&mut self.senders[sender as usize].arrivals)).ln(),
            Arrivals::Fixed => 1.0,
        };
        Time::from_ps((draw * self.mean_gap_ps).round() as u64)
    }

    fn draw(&mut self, actor: u32) -> Message {
        let sender = &mut self.senders[actor as usize];
        let bytes = self.spec.size.at(unit(&mut sender.sizes));
        let src = self.partners.sources.start + actor;
        let dst = self.partners.destination(src, &mut sender.destinations);
        let (kind, request) = match self.spec.traffic {
            Traffic::Flows => (Kind::Flow, 0),
            Traffic::Memory { read_fraction, request } => match unit(&mut sender.kinds) < read_fraction {
                true => (Kind::Read, request),
                false => (Kind::Write, 0),
            },
        };
        Message { src, dst, kind, request, bytes, tag: 0 }
    }
}

impl Source for Synthetic {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for actor in 0..self.senders.len() as u32 {
            let first = match self.spec.arrivals {
                Arrivals::Poisson => self.gap(actor),
                Arrivals::Fixed => {
                    let phase = unit(&mut self.senders[actor as usize].arrivals);
                    Time::from_ps((phase * self.mean_gap_ps) as u64)
                }
            };
            out.wake_at(first, actor);
        }
    }

    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        if self.is_exhausted() {
            return;
        }
        self.submitted += 1;
        let message = self.draw(actor);
        out.submit(message);
        let gap = self.gap(actor);
        out.wake_at(now + gap, actor);
    }

    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}

    fn total(&self) -> Option<u64> {
        Some(self.spec.messages)
    }

    fn is_exhausted(&self) -> bool {
        self.submitted >= self.spec.messages
    }
}

impl Sender {
    fn new(seed: u64, node: u32) -> Sender {
        let of = |purpose| generator(seed, purpose, node);
        Sender {
            arrivals: of(Purpose::Arrivals),
            kinds: of(Purpose::Kinds),
            sizes: of(Purpose::Sizes),
            destinations: of(Purpose::Destinations),
        }
    }
}

impl SyntheticSpec {
    fn check(&self) -> Result<(), WorkloadError> {
        if !(self.load > 0.0 && self.load <= 1.0) {
            return Err(WorkloadError::new("workload.load", "is above 0 and at most 1", self.load));
        }
        if self.messages == 0 || self.messages >= u64::from(u32::MAX) {
            return Err(WorkloadError::new("workload.messages", "is 1 to 4294967294", self.messages));
        }
        match self.traffic {
            Traffic::Memory { read_fraction, .. } if !(0.0..=1.0).contains(&read_fraction) => {
                Err(WorkloadError::new("workload.read_fraction", "is from 0 to 1", read_fraction))
            }
            Traffic::Memory { request: 0, .. } => {
                Err(WorkloadError::new("workload.request", "is at least 1 byte", 0))
            }
            _ => Ok(()),
        }
    }

    /// Mean payload of a message from its source to its destination, and back.
    fn bytes_per_message(&self) -> (f64, f64) {
        let (reads, request) = match self.traffic {
            Traffic::Memory { read_fraction, request } => (read_fraction, f64::from(request)),
            Traffic::Flows => (0.0, 0.0),
        };
        let data = self.size.mean();
        ((1.0 - reads) * data + reads * request, reads * data)
    }
}
