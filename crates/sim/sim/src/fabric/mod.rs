//! One leaf per fabric.
//!
//! # How to add a fabric
//!
//! 1. The protocol's rules go to `unrack_protocol` as a sans-IO core: it is told what happened at time t,
//!    and answers with what to do. No queue, no port, no clock in it.
//! 2. A leaf here owns the parts of the network the protocol uses (see [`unrack_engine::network`]: links,
//!    ports with known departures, the star), one core per endpoint or per switch in dense arrays
//!    named by index, and a small `Copy` event enum.
//! 3. It implements [`Fabric`](crate::Fabric): `submit` when a message comes, `handle` when one of its own events
//!    is due, `unloaded` as arithmetic. Both get the engine as [`Core`](crate::Core): `now`, `schedule`,
//!    `message`, `complete`, and the counters that every fabric keeps: `hop` at each link crossed, `sent`
//!    and `arrived` at the ends, `dropped` and `retransmitted`, `queued` at each switch port; and
//!    `waits` when something other than the network begins or ceases to hold a message up.
//! 4. It implements [`Registered`](crate::contract::Registered), and gets a line of the list there.
//! 5. Tests: what runs for all fabrics runs for it then (unloaded completion to the picosecond for sizes around every
//!    boundary, conservation of bytes, explanations, keys, memory, `crates/sim/sim/tests`); its own rules need tests of
//!    their own.
//!
//! A transport over packets is shorter: `packet::Transport` is asked for a packet when a node's link is free and told
//! what has arrived. Ports, queues, routes, pauses, faults, acknowledgement of requests by their answers and the life
//! of transfers are the business of `packet::PacketNetwork`. `pfabric.rs` is the shortest example.
//!
//! Faults: ask [`Topology::route_at`](unrack_engine::topology::Topology::route_at) for the next port, and
//! [`Topology::loses`](unrack_engine::topology::Topology::loses) once for each packet and link, when the departure is known,
//! host links ([`LinkId::Host`](crate::LinkId)) included. A lost packet has taken its time on the link: book it, call
//! `dropped`, and forget the packet. Without faults both calls cost one test of an option. A protocol whose peer is
//! gone for ever stops trying and calls [`Core::give_up`](crate::Core::give_up).
//!
//! Time within a fabric: book a port in the order of the times booked for. The easiest way is to book at the event of
//! that very time; where all bookings of a port happen a constant ahead of their time, the order is the same and an
//! event is saved.
//!
//! A whole run is `Sim::new(fabric, source).run()`.

pub(crate) mod buffer;
pub mod cxl;
pub mod dctcp;
pub mod edm;
pub mod fastpass;
pub mod ideal;
mod lone;
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
mod slab;
pub mod stream;
pub mod tcp;
mod timers;

use unrack_engine::Largest;
use unrack_protocol::segments::MOST_SEGMENTS;
use unrack_units::Bytes;

/// Returns the largest message of a fabric whose packets carry `payload` each, and are numbered in 32 bits.
fn largest_in_packets(payload: Bytes) -> Largest {
    let bytes = Bytes::new(payload.get().saturating_mul(u64::from(MOST_SEGMENTS)));
    Largest { bytes, why: format!("2^31 packets of {payload}: raise `network.mtu`") }
}

/// Implements `Split` for a fabric by the field that can run a part of the network alone.
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
