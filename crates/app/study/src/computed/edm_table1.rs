//! EDM table 1 and figure 5: the latency of a 64 B read and of a 64 B write through one switch, with four network stacks.

use crate::computed::Computed;
use unrack_phy::edm::{MuxPolicy, layout};
use unrack_phy::stack::testbed::BlockInFlight;
use unrack_phy::stack::{HostConfig, Request, SwitchConfig, Testbed};
use unrack_protocol::edm::{GrantPolicy as Order, steps};
use unrack_units::Time;

/// Times of one traversal of each component, from table 1.
const TCP_IP: Time = Time::from_ps(666_200);
pub(super) const ROCE: Time = Time::from_ps(230_200);
const MAC: Time = Time::from_ps(7_680);
const PCS: Time = Time::from_ps(7_680);
const FORWARDING: Time = Time::from_ns(400);
const PROPAGATION: Time = Time::from_ns(10);

/// The two nodes of figure 4.
pub(super) const COMPUTE: u16 = 0;
pub(super) const MEMORY: u16 = 1;
/// Number of cycles to run, after which every request has completed.
const CYCLES: u64 = 100;

/// Returns the latencies in nanoseconds, and the cycles of each step.
pub(super) fn values() -> Computed {
    let ns = |time: Time| time.as_ns_f64();
    let stacks = [("tcp_ip", TCP_IP), ("rocev2", ROCE), ("raw_ethernet", Time::ZERO)];
    let mut values: Computed = stacks
        .into_iter()
        // A read crosses the network in both directions, a write only in one.
        .flat_map(|(name, stack)| [(format!("{name}_read"), stack, 2), (format!("{name}_write"), stack, 1)])
        .flat_map(|(name, stack, ways)| {
            let in_stacks = over_the_mac(stack) * ways;
            [(format!("{name}_stack"), ns(in_stacks)), (name, ns(in_stacks + wire(2) * ways))]
        })
        .collect();
    let data = vec![0; 64];
    let requests = [
        ("edm_read", Request::Read { dst: MEMORY, address: 64, bytes: 64 }),
        ("edm_write", Request::Write { dst: MEMORY, address: 64, data }),
    ];
    for (name, request) in requests {
        let (cycles, crossings) = through_the_switch(request);
        let in_stacks = steps::PCS_CYCLE * cycles;
        values.insert(name.into(), ns(in_stacks + wire(4)));
        values.insert(format!("{name}_stack"), ns(in_stacks));
        values.extend(
            between(name, &crossings).map(|(step, cycles)| (format!("{name}_{step}"), cycles as f64)),
        );
    }
    values
}

/// Returns the time of one direction through a switch that forwards frames: two stacks, and two links with a MAC and a PCS
/// at each end.
pub(super) fn over_the_mac(stack: Time) -> Time {
    stack * 2 + (MAC + PCS) * 4 + FORWARDING
}

/// Returns the time of PMA, transceivers and fibre of `links` links.
pub(super) fn wire(links: u64) -> Time {
    (steps::PMA * 2 + PROPAGATION) * links
}

/// Runs a request. Returns the number of cycles until the first block of its data arrives, and a record of the blocks that
/// left multiplexers.
pub(super) fn through_the_switch(request: Request) -> (u64, Vec<BlockInFlight>) {
    through_lines_of(0, request)
}

/// Runs a request like [`through_the_switch`], over lines that each take this many cycles.
pub(super) fn through_lines_of(line: usize, request: Request) -> (u64, Vec<BlockInFlight>) {
    let (cycle, counts_control) = (steps::PCS_CYCLE, true);
    let switch = SwitchConfig { ports: 2, chunk: 256, policy: Order::Srpt, cycle, counts_control };
    let host = HostConfig { node: 0, chunk: 256, max_active: 3, mega: None, timeout: None };
    let mut bed = Testbed::new(switch, host, MuxPolicy::Fair, line);
    bed.crossings = Some(Vec::new());
    let is_write = matches!(request, Request::Write { .. });
    bed.hosts[usize::from(COMPUTE)].submit(0, request);
    (0..CYCLES).for_each(|_| bed.tick());
    let first = match is_write {
        true => bed.memory[usize::from(MEMORY)].writes.first().map(|(.., first, _)| *first),
        false => bed.hosts[usize::from(COMPUTE)].completions().next().map(|completion| completion.first),
    };
    (first.expect("it is over"), bed.crossings.take().unwrap_or_default())
}

/// Returns the cycles of each part of figure 5, computed from the cycles in which blocks left multiplexers.
pub(super) fn between(name: &str, crossings: &[BlockInFlight]) -> [(&'static str, u64); 4] {
    let pcs = 2 * steps::PCS_CYCLES;
    let at = |kind, up| {
        let is_it =
            |crossing: &&BlockInFlight| crossing.up == up && crossing.block.block_type() == Some(kind);
        crossings.iter().find(is_it).expect("it crossed").cycle
    };
    let (asks, granted) = match name {
        "edm_read" => (layout::MST, layout::MST),
        _ => (layout::N, layout::G),
    };
    [
        ("asks", at(asks, true)),
        ("matched", at(granted, false) - at(asks, true) - pcs),
        ("makes_data", at(layout::MS, true) - at(granted, false) - pcs),
        ("forwarded", at(layout::MS, false) - at(layout::MS, true) - pcs),
    ]
}
