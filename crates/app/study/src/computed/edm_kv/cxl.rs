//! The simulator's CXL: lines of 64 B in flits over one switch, with the latencies of Pond.

use super::access::{READ, StackLatency, UnloadedLatency, WRITE};
use unrack_protocol::cxl::{LINE_BYTES, Params};
use unrack_sim::Fabric;
use unrack_sim::fabric::cxl::Cxl;
use unrack_sim::network::{Network, StarNetwork};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

/// Rate of eight lanes of PCIe 5.0, which Pond's ports have.
const RATE: Rate = Rate::from_gbps(256);

/// Returns the latency of the simulator's CXL without load.
pub(super) fn latency() -> StackLatency {
    let star =
        StarNetwork { nodes: 2, rate: RATE, propagation: Time::from_ns(10), switch_latency: Time::ZERO };
    let cxl = Cxl::new(&Network::star(&star), &Params::default()).expect("two nodes can be connected");
    let alone = |read, write| UnloadedLatency {
        read: cxl.unloaded(&Message::read(0, 1, read)),
        write: cxl.unloaded(&Message::write(0, 1, write)),
    };
    let line = LINE_BYTES;
    StackLatency { first: alone(line, line), whole: alone(READ.into(), WRITE.into()) }
}
