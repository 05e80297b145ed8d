//! Fabrics: each module simulates one protocol on one topology.
//!
//! # How to add a fabric
//!
//! 1. The rules of the protocol go into `unrack_protocol` as a sans-IO core: its caller reports each event with the time t, and the core
//!    answers with actions. The core has no queue, port or clock.
//! 2. A module here owns the parts of the network that the protocol uses (see [`unrack_engine::network`]: links, ports with known
//!    departures, the star). It also has one core for each endpoint or switch, in dense arrays that are indexed by number, and a small
//!    `Copy` event enum.
//! 3. The module implements [`Fabric`](crate::Fabric): `submit` is called for each new message, `handle` for each due event of this fabric,
//!    and `unloaded` computes the completion time alone. The first two get the engine as [`Core`](crate::Core): `now`, `schedule`,
//!    `message`, `complete`, and the counters that every fabric keeps: `hop` at each link crossed, `sent` and `arrived` at the ends,
//!    `dropped` and `retransmitted`, `queued` at each switch port. `waits` reports that something other than the network starts or stops
//!    delaying a message.
//! 4. It implements [`Registered`](crate::contract::Registered), and is added to the list in that module.
//! 5. Tests: the tests of all fabrics (`crates/sim/sim/tests`) then run for the new one: unloaded completion to the picosecond for sizes
//!    around every boundary, conservation of bytes, explanations, keys, memory. Its own rules need separate tests.
//!
//! A packet transport is shorter, because it implements only `packet::Transport`: the network asks it for a packet when a node's link is
//! free, and passes it the packets that have arrived. `packet::PacketNetwork` handles ports, queues, routes, pauses, faults, the
//! acknowledgement of requests by their answers, and the life of transfers. `pfabric.rs` is the shortest example.
//!
//! Faults: call [`Topology::route_at`](unrack_engine::topology::Topology::route_at) for the next port. Call
//! [`Topology::loses`](unrack_engine::topology::Topology::loses) once for each packet and link, when the departure is known, host links
//! ([`LinkId::Host`](crate::LinkId)) included. A lost packet has used its time on the link: book that time, call `dropped`, and forget the
//! packet. Without faults, each of these calls only tests an option. A protocol whose peer is gone permanently stops retrying and calls
//! [`Core::give_up`](crate::Core::give_up).
//!
//! Time within a fabric: the bookings of a port must be made in the order of the times that they are for. The easiest way is to book in the
//! event of that very time. If all bookings of a port are made the same time ahead, their order is kept too, and one event per booking is
//! saved.
//!
//! `Sim::new(fabric, source).run()` executes a whole run.

pub(crate) mod buffer;
pub mod cxl;
pub mod dctcp;
pub mod edm;
pub mod fastpass;
pub mod ideal;
pub mod mptcp;
pub mod ndp;
mod occupancy;
pub mod packet;
mod parts;
pub mod pfabric;
pub mod pfc_dcqcn;
pub mod pfq;
mod pool;
pub mod r2c2;
pub mod receiver_driven;
mod single_message;
mod slab;
pub mod stream;
pub mod tcp;
mod timers;

use unrack_engine::Largest;
use unrack_protocol::segments::MOST_SEGMENTS;
use unrack_units::Bytes;

/// Returns the largest message of a fabric whose packets carry `payload` bytes each and have 32-bit numbers.
fn largest_in_packets(payload: Bytes) -> Largest {
    let bytes = Bytes::new(payload.get().saturating_mul(u64::from(MOST_SEGMENTS)));
    Largest { bytes, why: format!("2^31 packets of {payload}: raise `network.mtu`") }
}

/// Implements `Split` for a fabric by forwarding to its field `$field`, which can simulate one part of the network.
macro_rules! split_by_switch {
    ($fabric:ident, $field:ident, $event:ty, $parcel:ty) => {
        impl unrack_engine::events::Split for $fabric {
            type Parcel = $parcel;

            fn become_part(&mut self, me: u32, part_of: std::sync::Arc<[u32]>) {
                self.$field.become_part(me, part_of);
            }
            fn crossed(&mut self) -> &mut Vec<(u32, $parcel)> {
                &mut self.$field.part().crossed
            }
            fn take(
                &mut self,
                core: &mut unrack_engine::events::Core<$event, unrack_engine::events::Unobserved>,
                parcel: $parcel,
            ) {
                self.$field.take(core, parcel);
            }
            fn closed(&mut self) -> &mut Vec<u32> {
                &mut self.$field.part().closed
            }
            fn under_way(&self, transfer: u32) -> i32 {
                self.$field.under_way(transfer)
            }
            fn forget(&mut self, transfer: u32) {
                self.$field.forget(transfer);
            }
        }
    };
}
use split_by_switch;
