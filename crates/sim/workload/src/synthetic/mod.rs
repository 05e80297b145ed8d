//! Synthetic open-loop traffic: messages are submitted at drawn times, regardless of the state of the network.
//!
//! Every sender has separate random generators for the arrivals, kinds, sizes and destinations of its messages.
//! **Load** is the payload per second that is offered to the busiest direction of any host link, including requests,
//! divided by the rate of that link.

mod arrivals;
mod pattern;

use self::pattern::Partners;
use crate::blades::BladeRacks;
use crate::error::WorkloadError;
use crate::message::{Message, NodeId, READ_REQUEST_BYTES, RMW_REQUEST_BYTES};
use crate::random::{DrawPurpose, generator, unit};
use crate::size::SizeDistribution;
use crate::source::{Outbox, Source};
use rand_pcg::Pcg64Mcg;
use unrack_rack::{Arrivals, Blades, Pattern};
use unrack_units::{Rate, Time};

/// Parameters of synthetic traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticSpec {
    pub traffic: Traffic,
    pub size: SizeDistribution,
    pub pattern: Pattern,
    /// Numbers of blades, of which compute blades submit messages to memory blades; `None` if every node is both a
    /// source and a destination.
    pub blades: Option<Blades>,
    pub arrivals: Arrivals,
    /// Offered load, above 0 and at most 1.
    pub load: f64,
    pub messages: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Traffic {
    Memory(MemoryMix),
    Flows,
}

/// Fractions of reads and read-modify-writes among the messages to memory. The remaining messages are writes.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryMix {
    pub read_fraction: f64,
    /// Bytes of the request of a read.
    pub request: u32,
    pub rmw_fraction: f64,
    /// Bytes of the request of a read-modify-write. The request contains the address and the arguments of the
    /// operation.
    pub rmw_request: u32,
    /// Bytes of the answer to a read-modify-write.
    pub rmw_answer: u64,
    /// Messages to disk blades, or `None` if no messages go to disk blades.
    pub disk: Option<DiskShare>,
}

/// Messages to disk blades. Reads and writes have the same ratio among them as among the messages to memory blades.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskShare {
    /// Fraction of messages that go to disk blades, among all messages.
    pub fraction: f64,
    pub size: SizeDistribution,
}

impl Traffic {
    /// Returns a mix of reads and writes. The request of a read has 8 bytes (EDM §2.3).
    pub fn memory(read_fraction: f64) -> Traffic {
        Traffic::mixed(read_fraction, 0.0)
    }

    /// Returns a mix of reads, writes, and compare-and-swaps. The request of a compare-and-swap has 24 bytes, and its
    /// answer has one byte (EDM §2.3).
    pub fn mixed(read_fraction: f64, rmw_fraction: f64) -> Traffic {
        Traffic::Memory(MemoryMix {
            read_fraction,
            request: READ_REQUEST_BYTES,
            rmw_fraction,
            rmw_request: RMW_REQUEST_BYTES,
            rmw_answer: 1,
            disk: None,
        })
    }
}

/// Source of synthetic traffic.
pub struct Synthetic {
    spec: SyntheticSpec,
    partners: Partners,
    disks: Option<Partners>,
    mean_gap_ps: f64,
    senders: Vec<Sender>,
    submitted: u64,
}

struct Sender {
    arrivals: Pcg64Mcg,
    kinds: Pcg64Mcg,
    sizes: Pcg64Mcg,
    destinations: Pcg64Mcg,
    disks: Pcg64Mcg,
}

impl Synthetic {
    /// Creates traffic among the nodes of `racks`, whose host links have this `rate`. Instead of racks, a number of
    /// nodes can be given, which are then in one rack.
    ///
    /// # Errors
    /// If a parameter of the traffic is out of bounds.
    pub fn new(
        spec: SyntheticSpec,
        racks: impl Into<BladeRacks>,
        rate: Rate,
        seed: u64,
    ) -> Result<Synthetic, WorkloadError> {
        let racks = racks.into();
        spec.check()?;
        let partners = Partners::new(spec.pattern, spec.blades, racks, seed)?;
        let disks = spec.disks(racks, seed)?;
        let bytes_per_ps = rate.as_bps() as f64 / 8e12;
        let busiest = spec.busiest(&partners, disks.as_ref());
        let mean_gap_ps = busiest / (spec.load * bytes_per_ps);
        spec.check_length(mean_gap_ps, partners.sources.len())?;
        let senders = partners.sources.iter().map(|node| Sender::new(seed, *node)).collect();
        Ok(Synthetic { spec, partners, disks, mean_gap_ps, senders, submitted: 0 })
    }

    /// Returns the mean time between two successive messages of one sender.
    pub fn mean_gap(&self) -> Time {
        Time::from_ps(self.mean_gap_ps.round() as u64)
    }

    /// Returns the mean time between the first and the last submission of a message.
    pub fn mean_length(&self) -> Time {
        Time::from_ps((self.mean_gap_ps * self.spec.messages as f64 / self.senders.len() as f64) as u64)
    }

    fn draw(&mut self, actor: u32) -> Message {
        let sender = &mut self.senders[actor as usize];
        let src = self.partners.sources[actor as usize];
        let Traffic::Memory(memory) = &self.spec.traffic else {
            let bytes = self.spec.size.at(unit(&mut sender.sizes));
            let dst = self.partners.destination(actor, &mut sender.destinations);
            return Message::flow(src, dst, bytes);
        };
        let kind = unit(&mut sender.kinds);
        if let (Some(disks), Some(disk)) = (&self.disks, &memory.disk)
            && unit(&mut sender.disks) < disk.fraction
        {
            let bytes = disk.size.at(unit(&mut sender.sizes));
            let dst = disks.destination(actor, &mut sender.destinations);
            return memory.of_disk(kind, src, dst, bytes);
        }
        let bytes = self.spec.size.at(unit(&mut sender.sizes));
        let dst = self.partners.destination(actor, &mut sender.destinations);
        memory.message(kind, src, dst, bytes)
    }
}

impl Source for Synthetic {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for actor in 0..self.senders.len() as u32 {
            let draws = &mut self.senders[actor as usize].arrivals;
            let first = arrivals::first(self.spec.arrivals, self.mean_gap_ps, draws);
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
        let draws = &mut self.senders[actor as usize].arrivals;
        let gap = arrivals::gap(self.spec.arrivals, self.mean_gap_ps, draws);
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
            arrivals: of(DrawPurpose::Arrivals),
            kinds: of(DrawPurpose::Kinds),
            sizes: of(DrawPurpose::Sizes),
            destinations: of(DrawPurpose::Destinations),
            disks: of(DrawPurpose::Disks),
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
        arrivals::check(self.arrivals)?;
        match &self.traffic {
            Traffic::Memory(memory) => memory.check(self.blades),
            Traffic::Flows => Ok(()),
        }
    }

    /// Rejects traffic whose expected duration exceeds the range of simulated time.
    fn check_length(&self, mean_gap_ps: f64, senders: usize) -> Result<(), WorkloadError> {
        let length_ps = mean_gap_ps * (self.messages as f64 / senders as f64).max(1.0);
        if length_ps < Time::END.as_ps() as f64 {
            return Ok(());
        }
        let days = length_ps / 1e12 / 86_400.0;
        let rule =
            "offers its messages within 106 days of simulated time: raise it, or lower workload.messages";
        Err(WorkloadError::new("workload.load", rule, format!("{}, for about {days:.3e} days", self.load)))
    }

    fn disks(&self, racks: BladeRacks, seed: u64) -> Result<Option<Partners>, WorkloadError> {
        match (&self.traffic, self.blades) {
            (Traffic::Memory(MemoryMix { disk: Some(_), .. }), Some(blades)) => {
                Partners::disks(blades, racks, seed).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the mean number of bytes that the busiest direction of any link carries, per message of one source.
    fn busiest(&self, partners: &Partners, disks: Option<&Partners>) -> f64 {
        let data = self.size.mean();
        let Traffic::Memory(memory) = &self.traffic else {
            return busiest(partners, data, 0.0);
        };
        let (out, back) = memory.bytes_per_message(data);
        let (Some(disks), Some(disk)) = (disks, &memory.disk) else {
            return busiest(partners, out, back);
        };
        let (share, reads) = (disk.fraction, memory.reads_of_disk());
        let data = disk.size.mean();
        let disk_out = share * ((1.0 - reads) * data + reads * f64::from(memory.request));
        let disk_back = share * reads * data;
        let (out, back) = ((1.0 - share) * out, (1.0 - share) * back);
        let source = (out + disk_out).max(back + disk_back);
        source.max(partners.heaviest() * out.max(back)).max(disks.heaviest() * disk_out.max(disk_back))
    }
}

/// Returns the mean number of bytes that the busiest direction of any link carries, per message of one source. Each
/// message takes `out` bytes from its source to its destination and `back` bytes in the opposite direction.
fn busiest(partners: &Partners, out: f64, back: f64) -> f64 {
    let heaviest = partners.heaviest();
    match partners.nodes_do_both() {
        true => (out + back * heaviest).max(back + out * heaviest),
        false => heaviest.max(1.0) * out.max(back),
    }
}

impl MemoryMix {
    fn check(&self, blades: Option<Blades>) -> Result<(), WorkloadError> {
        let fraction = |key, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(WorkloadError::new(key, "is from 0 to 1", value)),
        };
        fraction("workload.read_fraction", self.read_fraction)?;
        fraction("workload.rmw_fraction", self.rmw_fraction)?;
        let sum = self.read_fraction + self.rmw_fraction;
        if sum > 1.0 + ROUNDING {
            let rule = "and read_fraction are at most 1 together; the rest are writes";
            return Err(WorkloadError::new("workload.rmw_fraction", rule, format!("{sum} with it")));
        }
        for (key, bytes) in [
            ("workload.request_size", u64::from(self.request)),
            ("workload.rmw_request_size", u64::from(self.rmw_request)),
            ("workload.rmw_size", self.rmw_answer),
        ] {
            if bytes == 0 {
                return Err(WorkloadError::new(key, "is at least 1 byte", 0));
            }
        }
        let Some(disk) = &self.disk else { return Ok(()) };
        fraction("workload.disk.fraction", disk.fraction)?;
        match blades.is_some_and(|blades| blades.disk > 0) {
            true => Ok(()),
            false => Err(WorkloadError::new("workload.disk", "needs blades of disk", "without")),
        }
    }

    fn message(&self, kind: f64, src: NodeId, dst: NodeId, bytes: u64) -> Message {
        if kind < self.read_fraction {
            Message { request: self.request, ..Message::read(src, dst, bytes) }
        } else if kind < self.read_fraction + self.rmw_fraction {
            Message { request: self.rmw_request, ..Message::rmw(src, dst, self.rmw_answer) }
        } else {
            Message::write(src, dst, bytes)
        }
    }

    fn of_disk(&self, kind: f64, src: NodeId, dst: NodeId, bytes: u64) -> Message {
        match kind < self.reads_of_disk() {
            true => Message { request: self.request, ..Message::read(src, dst, bytes) },
            false => Message::write(src, dst, bytes),
        }
    }

    fn reads_of_disk(&self) -> f64 {
        let others = 1.0 - self.rmw_fraction;
        if others > 0.0 { self.read_fraction / others } else { 0.0 }
    }

    /// Returns the mean payload of a message to memory in each direction: from its source to its destination, and from
    /// its destination to its source.
    fn bytes_per_message(&self, data: f64) -> (f64, f64) {
        let (reads, rmws) = (self.read_fraction, self.rmw_fraction);
        let writes = (1.0 - reads - rmws).max(0.0);
        let requests = reads * f64::from(self.request) + rmws * f64::from(self.rmw_request);
        (writes * data + requests, reads * data + rmws * self.rmw_answer as f64)
    }
}

/// Tolerance for rounding errors in sums of fractions, because `0.7 + 0.3` may not be exactly 1.
const ROUNDING: f64 = 1e-9;
