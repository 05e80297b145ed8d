//! Utilization of links and the lengths of their queues, in intervals of equal length.

use unrack_engine::events::{Hop, LinkId};
use unrack_units::Time;

/// Traffic and queue of each link in each interval. It needs 40 bytes per link and interval, up to the last interval in
/// which the link was used.
pub struct LinkSamples {
    every: Time,
    hosts: Vec<Bins>,
    ports: Vec<Bins>,
    /// Number of further intervals of links for which memory remains.
    room: u64,
    /// Time at which the memory was used up; `None` if it never was.
    full: Option<Time>,
}

#[derive(Debug, Clone, Default)]
struct Bins {
    bins: Vec<Bin>,
    /// Time until which bits are already counted. Packets that share bits count them only once.
    counted_until: Time,
}

/// Traffic of one link in one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSample {
    pub link: LinkId,
    pub from: Time,
    /// Time during which the link carried bits. Packets that share a flit, or that slip into another packet, count
    /// once.
    pub busy: Time,
    /// Number of packets whose last bit left in the interval.
    pub packets: u32,
    /// Bytes of these packets on the wire.
    pub wire_bytes: u64,
    /// Bytes of payload of these packets.
    pub payload_bytes: u64,
    /// Mean number of waiting bytes over the interval. Bytes in transmission do not count as waiting.
    pub queue_mean_bytes: f64,
    /// Maximum number of bytes that a data packet found ahead of it at this switch port, including those in
    /// transmission.
    pub queue_max_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    busy: Time,
    packets: u32,
    wire: u64,
    payload: u64,
    /// Integral of the waiting bytes over time, in byte picoseconds.
    waited: u128,
    most: u64,
}

impl LinkSamples {
    /// Creates samples with intervals of this length.
    ///
    /// # Panics
    /// If `every` is zero.
    pub fn new(every: Time) -> LinkSamples {
        assert!(every > Time::ZERO, "intervals have a length");
        LinkSamples { every, hosts: Vec::new(), ports: Vec::new(), room: u64::MAX, full: None }
    }

    /// Limits the memory of the samples to `bytes`. When it is used up, recording stops.
    pub fn within(self, bytes: u64) -> LinkSamples {
        LinkSamples { room: bytes / size_of::<Bin>() as u64, ..self }
    }

    /// Returns the time at which the memory was used up; `None` if it never was.
    pub fn full(&self) -> Option<Time> {
        self.full
    }

    /// Returns the length of the intervals.
    pub fn every(&self) -> Time {
        self.every
    }

    pub(super) fn hop(&mut self, hop: &Hop) {
        let every = self.every;
        if !self.makes_room(hop.link, hop.last) {
            return;
        }
        let wire = u64::from(hop.wire);
        let Bins { bins, counted_until } = self.bins(hop.link);
        spread(bins, every, (hop.ready, hop.first), |bin, time| {
            bin.waited += u128::from(wire) * u128::from(time.as_ps());
        });
        let from = if hop.shares { hop.first.max(*counted_until) } else { hop.first };
        *counted_until = hop.last;
        spread(bins, every, (from, hop.last), |bin, time| bin.busy += time);
        let bin = at(bins, (hop.last.as_ps() - 1) / every.as_ps());
        bin.packets += 1;
        bin.wire += wire;
        bin.payload += u64::from(hop.payload);
    }

    pub(super) fn queued(&mut self, port: u32, bytes: u64, now: Time) {
        if !self.makes_room(LinkId::Port(port), now) {
            return;
        }
        let number = now.as_ps() / self.every.as_ps();
        let bin = at(&mut self.bins(LinkId::Port(port)).bins, number);
        bin.most = bin.most.max(bytes);
    }

    /// Creates the intervals of a link up to `until`, if there is memory for them. Returns whether memory has sufficed
    /// so far.
    fn makes_room(&mut self, link: LinkId, until: Time) -> bool {
        let len = until.as_ps() / self.every.as_ps() + 1;
        let room = self.room;
        let bins = &mut self.bins(link).bins;
        let more = len.saturating_sub(bins.len() as u64);
        let fits = more <= room && bins.try_reserve(more as usize).is_ok();
        if !fits {
            self.full.get_or_insert(until);
        } else if more > 0 {
            bins.resize(len as usize, Bin::default());
            self.room -= more;
        }
        self.full.is_none()
    }

    /// Returns a sample for each link and each interval in which the link was not idle, ordered by interval and then by
    /// link.
    pub fn samples(&self) -> impl Iterator<Item = LinkSample> + '_ {
        let intervals = self.hosts.iter().chain(&self.ports).map(|of| of.bins.len()).max().unwrap_or(0);
        (0..intervals).flat_map(move |n| {
            let hosts = (0..).zip(&self.hosts).map(|(node, of)| (LinkId::Host(node), of));
            let ports = (0..).zip(&self.ports).map(|(port, of)| (LinkId::Port(port), of));
            hosts.chain(ports).filter_map(move |(link, of)| self.sample(link, n as u64, of.bins.get(n)?))
        })
    }

    fn sample(&self, link: LinkId, number: u64, bin: &Bin) -> Option<LinkSample> {
        let used = bin.busy > Time::ZERO || bin.waited > 0 || bin.most > 0;
        used.then(|| LinkSample {
            link,
            from: self.every * number,
            busy: bin.busy.min(self.every),
            packets: bin.packets,
            wire_bytes: bin.wire,
            payload_bytes: bin.payload,
            queue_mean_bytes: bin.waited as f64 / self.every.as_ps() as f64,
            queue_max_bytes: bin.most,
        })
    }

    fn bins(&mut self, link: LinkId) -> &mut Bins {
        let (links, number) = match link {
            LinkId::Host(node) => (&mut self.hosts, node as usize),
            LinkId::Port(port) => (&mut self.ports, port as usize),
        };
        if links.len() <= number {
            links.resize_with(number + 1, Bins::default);
        }
        &mut links[number]
    }
}

fn at(bins: &mut [Bin], number: u64) -> &mut Bin {
    &mut bins[number as usize]
}

/// Calls `add` for each interval that a span overlaps, with the length of the overlap.
fn spread(bins: &mut [Bin], every: Time, (mut from, until): (Time, Time), add: impl Fn(&mut Bin, Time)) {
    while from < until {
        let number = from.as_ps() / every.as_ps();
        let end = (every * (number + 1)).min(until);
        add(at(bins, number), end - from);
        from = end;
    }
}
