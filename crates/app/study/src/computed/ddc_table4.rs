//! DDC table 4: the components of fetching a 4 KB page.

use crate::computed::Computed;
use unrack_units::{Rate, Time};

const PAGE_BYTES: u64 = unrack_basis::PAGE as u64;
/// Times of one traversal of each component (DDC §3.3, table 4).
const OS: Time = Time::from_ns(950);
const COPY: Time = Time::from_ns(1_000);
const COPY_NIC_INTEGRATED: Time = Time::from_ns(500);
const SWITCH: Time = Time::from_ns(240);
/// Propagation delay over 40 m and 4 m at 5 ns/m.
const BETWEEN_RACKS: Time = Time::from_ns(40 * 5);
const IN_RACK: Time = Time::from_ns(4 * 5);

/// Returns the components in microseconds.
pub(super) fn values() -> Computed {
    let (g40, g100) = (Rate::from_gbps(40), Rate::from_gbps(100));
    let (inter, intra) = (network(6, 4, g40), network(2, 0, g40));
    let values = [
        ("baseline_inter", (OS + COPY) * 2 + inter),
        ("baseline_intra", (OS + COPY) * 2 + intra),
        ("rdma_inter", COPY * 2 + inter),
        ("rdma_intra", COPY * 2 + intra),
        ("nic_inter", COPY_NIC_INTEGRATED * 2 + inter),
        ("nic_intra", COPY_NIC_INTEGRATED * 2 + intra),
        ("nic_inter_100g", COPY_NIC_INTEGRATED * 2 + network(6, 4, g100)),
        ("network_inter", inter),
        ("network_intra", intra),
        ("transmission", g40.transmit_bits(u128::from(PAGE_BYTES) * 8)),
    ];
    values.into_iter().map(|(name, time)| (name.to_string(), time.as_ns_f64() / 1e3)).collect()
}

/// Returns the network's part of a round trip: the given numbers of switch traversals and of links between racks, four links
/// within racks, and one transmission of the page.
fn network(switches: u64, between_racks: u64, rate: Rate) -> Time {
    let page = rate.transmit_bits(u128::from(PAGE_BYTES) * 8);
    SWITCH * switches + BETWEEN_RACKS * between_racks + IN_RACK * 4 + page
}
