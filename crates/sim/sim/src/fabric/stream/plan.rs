//! The network below streams: its parameters, and their checks.

use super::unloaded::LoneStreamParams;
use crate::fabric::largest_in_packets;
use crate::fabric::timers::TransferSide;
use crate::site::{Ethernet, SwitchBuffer};
use unrack_engine::Largest;
use unrack_engine::error::SetupError;
use unrack_engine::network::{Departure, Network, Pace};
use unrack_hosts::{self as hosts, Hosts};
use unrack_protocol::tcp::Framing;
use unrack_units::{Bytes, Time};
use unrack_workload::NodeId;

/// Network below the streams, with its parameters.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    pub network: Network,
    pub framing: Framing,
    pub mtu: Bytes,
    /// Buffers of switches.
    pub buffer: SwitchBuffer,
    pub cut_through: bool,
    /// Number of segments that a stream may send before the first acknowledgement.
    pub initial_window: u32,
    /// Whether data packets take equal-cost paths in turn.
    pub spraying: bool,
    /// Whether connections are kept between messages.
    pub kept: bool,
    /// Seed for the random draws of repeated timeouts.
    pub seed: u64,
}

impl StreamPlan {
    /// Creates a plan for streams that start with this window.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(
        network: &Network,
        ethernet: &Ethernet,
        initial_window: u32,
        min_rto: Time,
    ) -> Result<StreamPlan, SetupError> {
        if initial_window == 0 {
            return Err(SetupError::new("fabric.initial_window", "is at least 1", 0));
        }
        if min_rto == Time::ZERO {
            return Err(SetupError::new("fabric.min_rto", "is above 0", min_rto));
        }
        Ok(StreamPlan { initial_window, ..StreamPlan::at_line_rate(network, ethernet)? })
    }

    /// Creates a plan for streams that are sent back to back when they are alone in the network.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn at_line_rate(network: &Network, ethernet: &Ethernet) -> Result<StreamPlan, SetupError> {
        let Ethernet { mtu, headers, buffer, cut_through } = *ethernet;
        let framing = if headers { Framing::ethernet(mtu) } else { Framing::bare(mtu) };
        let framing = framing.filter(|_| mtu <= MAX_MTU).ok_or_else(|| {
            SetupError::new("network.mtu", "is from 53B (one byte beside the headers) to 64KiB", mtu)
        })?;
        let (host, core) = (network.topology.host_link().pace, network.topology.core_link().pace);
        // Without switches, a node reaches its own switch at the combined rate of all its links.
        if core.rate() < host.rate() && network.topology.graph().is_none() {
            let rule = "is at least network.link.rate";
            return Err(SetupError::new("network.core_link.rate", rule, core.rate()));
        }
        let initial_window = u32::MAX;
        let plan = StreamPlan {
            network: network.clone(),
            framing,
            mtu,
            buffer,
            cut_through,
            initial_window,
            spraying: false,
            kept: false,
            seed: 0,
        };
        if let SwitchBuffer::Shared { alpha, .. } = buffer
            && !(alpha > 0.0 && alpha.is_finite())
        {
            return Err(SetupError::new("network.switch.alpha", "is above 0", alpha));
        }
        if buffer.of_port() < plan.full_packet() {
            let rule = "holds a full packet of a port";
            return Err(SetupError::new("network.switch.buffer", rule, buffer.of_port()));
        }
        Ok(plan)
    }

    /// Returns the same plan for a network without faults.
    pub(in super::super) fn without_faults(&self) -> StreamPlan {
        let network = &self.network;
        let topology = network.topology.clone().without_faults();
        StreamPlan { network: Network { topology, ..network.clone() }, ..self.clone() }
    }

    /// Returns the parameters that determine the time of a stream that is alone between two nodes.
    pub(in super::super) fn alone(&self, src: NodeId, dst: NodeId) -> LoneStreamParams {
        let mut links: Vec<_> = self.network.links(src, dst).collect();
        let lead = self.network.topology.graph().map(|_| links.remove(0));
        LoneStreamParams {
            lead,
            links,
            switch_latency: self.network.switch_latency,
            framing: self.framing,
            cut_through: self.cut_through,
            initial_window: u64::from(self.initial_window),
            paths: Vec::new(),
            spacing: None,
        }
    }

    /// Returns when a packet with this departure can be queued at a port of this pace, not counting propagation.
    #[inline]
    pub(in super::super) fn ready(&self, departure: Departure, wire: u32, next: Pace) -> Time {
        let Departure { first, last } = departure;
        let start = match self.cut_through {
            // A faster next link must not run out of bits in the middle of a packet.
            true => first.max(last.saturating_sub(next.transmit(u64::from(wire)))),
            false => last,
        };
        start + self.network.switch_latency
    }

    /// Returns the time from the start of a full packet until the arrival of its acknowledgement, in an empty network. The packet goes from
    /// the first node to the last one, because no two nodes are further apart.
    pub fn round_trip(&self) -> Time {
        let topology = &self.network.topology;
        let hosts = topology.hosts().map(|inside| hosts::HostPlan::new(inside, topology, 0).patience());
        self.alone(0, self.network.nodes() - 1).round_trip() + hosts.unwrap_or_default() * 2
    }

    /// Returns the number of packets that a sender may have in flight without acknowledgement: `asked`, or by default one bandwidth-delay
    /// product. With a smaller window, a sender could not send back to back even if it were alone.
    ///
    /// # Errors
    /// If `asked` is less than the bandwidth-delay product.
    pub fn line_rate_window(&self, key: &'static str, asked: Option<u32>) -> Result<u32, SetupError> {
        let packet = self.network.topology.host_link().pace.transmit(self.full_packet().get());
        let least = self.round_trip().as_ps().div_ceil(packet.as_ps()) as u32;
        match asked {
            Some(asked) if asked < least => Err(SetupError::new(
                key,
                "covers the round trip of the network",
                format!("{asked}, below {least}"),
            )),
            Some(asked) => Ok(asked),
            None => Ok(least),
        }
    }

    /// Returns the salt of the random draws that one end of a transfer makes: see [`longer`](unrack_protocol::silence::longer). Transfers
    /// have the same name on any number of threads.
    pub(in super::super) fn salt(&self, name: u32, side: TransferSide) -> u32 {
        let seed = (self.seed ^ (self.seed >> 32)) as u32;
        seed.wrapping_mul(0x9E37_79B1) ^ name.wrapping_mul(2) ^ side as u32
    }

    /// Returns how long a sender without any reply should wait before it considers its packets lost. It is three round trips of the empty
    /// network, or one round trip plus the time that a full port needs to drain, if that is longer. (At 10 Gb/s and 36 KB, these two times
    /// are equal, and are pFabric's 45 us.) With a shorter wait, packets that only wait in queues would be retransmitted, and would wait
    /// even longer.
    pub fn patience(&self) -> Time {
        let round_trip = self.round_trip();
        (round_trip * 3).max(round_trip + self.full_port())
    }

    /// Returns three round trips of the empty network, or one round trip plus the time that the slower kind of link takes to send `waiting`
    /// bytes, if that is longer.
    pub fn three_trips_or(&self, waiting: u64) -> Time {
        let round_trip = self.round_trip();
        let topology = &self.network.topology;
        let time =
            topology.host_link().pace.transmit(waiting).max(topology.core_link().pace.transmit(waiting));
        (round_trip * 3).max(round_trip + time)
    }

    /// Returns the number of switch ports on the longest path.
    pub fn ports_on_the_way(&self) -> u64 {
        self.network.links(0, self.network.nodes() - 1).count() as u64 - 1
    }

    /// Returns the bytes of one window of packets of this size from every node, but at most a port's buffer.
    pub fn window_of_every_node(&self, window: u32, packet: Bytes) -> u64 {
        let all =
            packet.get().saturating_mul(u64::from(window)).saturating_mul(u64::from(self.network.nodes()));
        all.min(self.buffer.of_port().get())
    }

    /// Returns the time that a node's link takes to send a full port's buffer; zero if buffers are unlimited.
    pub fn full_port(&self) -> Time {
        let buffer = self.buffer.of_port();
        match buffer < MOST_BUFFER {
            true => self.network.topology.host_link().pace.transmit(buffer.get()),
            false => Time::ZERO,
        }
    }

    /// Returns the shortest time after which a packet that leaves a switch can affect the next switch. Zero if there is no next switch.
    pub(in super::super) fn lookahead(&self) -> Time {
        match self.network.topology.is_star() {
            true => Time::ZERO,
            false => self.network.topology.core_link().propagation + self.network.switch_latency,
        }
    }

    /// Returns the insides of nodes in their state before the first message, or `None` if they take no time.
    pub(in super::super) fn hosts(&self) -> Option<Hosts> {
        let topology = &self.network.topology;
        let packet = u64::from(self.in_memory(self.framing.mss().get() as u32));
        topology.hosts().map(|inside| Hosts::new(hosts::HostPlan::new(inside, topology, packet)))
    }

    /// Returns the bytes that a packet uses in memory: its IP and TCP headers and payload, but at least a cache line.
    pub(in super::super) fn in_memory(&self, payload: u32) -> u32 {
        let headers = self.mtu.get() - self.framing.mss().get();
        (headers as u32 + payload).max(64)
    }

    /// Returns the largest message: see [`Fabric::largest`](unrack_engine::Fabric::largest).
    pub fn largest(&self) -> Largest {
        largest_in_packets(self.framing.mss())
    }

    /// Returns the bytes of a full packet on the wire.
    pub fn full_packet(&self) -> Bytes {
        self.framing.wire(self.framing.mss().get())
    }
}

/// Buffer size from which on a port counts as unlimited, so that timeouts do not include the time to drain it.
const MOST_BUFFER: Bytes = Bytes::new(1 << 26);

/// Largest packet: the limit of IPv4's length field.
const MAX_MTU: Bytes = Bytes::new(65_536);
