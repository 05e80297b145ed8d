//! EDM: cycle-by-cycle simulation of blocks on the testbed of figure 4.

use super::super::edm_table1::{COMPUTE, MEMORY, through_the_switch, wire};
use super::access::{READ, RecordAccess, StackLatency, UnloadedLatency, WINDOW, WRITE};
use unrack_phy::Block;
use unrack_phy::edm::{Body, MemoryMessage, MuxPolicy};
use unrack_phy::stack::{HostConfig, Request, SwitchConfig, Testbed};
use unrack_protocol::edm::{GrantPolicy as Order, steps};
use unrack_units::Time;

/// Cycles of PMA, transceivers and fibre of a link: 48 ns.
const WIRE: u64 = 19;
/// Divisor of the number of requests: the first tenth of the requests is warm-up and does not count.
const WARM_UP: usize = 10;
/// Number of links that a message crosses: request and answer of a read, or notification, grant and data of a write.
const LINKS: u64 = 4;
/// Bytes of the requests in table 1.
const LINE: usize = 64;

/// Returns the requests per second, with up to [`WINDOW`] requests in flight.
pub(super) fn rate(accesses: &[RecordAccess]) -> f64 {
    let mut bed = testbed();
    let mut left = accesses.iter();
    let (mut under_way, mut done) = (0, 0);
    let warm_up = accesses.len() / WARM_UP;
    let mut since = 0;
    while done < accesses.len() {
        while under_way < WINDOW
            && let Some(access) = left.next()
        {
            let now = bed.now();
            bed.hosts[usize::from(COMPUTE)].submit(now, request(*access));
            under_way += 1;
        }
        bed.tick();
        let ended = bed.hosts[usize::from(COMPUTE)].completions().count();
        (under_way, done) = (under_way - ended, done + ended);
        if done <= warm_up {
            since = bed.now();
        }
    }
    let counted = (accesses.len() - warm_up) as f64;
    counted / ((bed.now() - since) as f64 * steps::PCS_CYCLE.as_ns_f64() / 1e9)
}

/// Returns the time that a request occupies the compute node's line. For a write this includes the notification.
pub(super) fn up(is_read: bool) -> Time {
    let (node, id, address) = (MEMORY, 0, 0);
    let body = match is_read {
        true => Body::Read { address, bytes: READ },
        false => Body::Write { address, last: true, data: vec![0; usize::from(WRITE)] },
    };
    let mut blocks: Vec<Block> = Vec::new();
    MemoryMessage { node, id, body }.blocks(&mut blocks);
    steps::PCS_CYCLE * (blocks.len() as u64 + u64::from(!is_read))
}

/// Returns the latency of a single request: until the first word of a line of 64 B arrives, and until all requested data
/// has arrived.
pub(super) fn latency() -> StackLatency {
    let first = |request| steps::PCS_CYCLE * through_the_switch(request).0 + wire(LINKS);
    let data = vec![0; LINE];
    StackLatency {
        first: UnloadedLatency {
            read: first(Request::Read { dst: MEMORY, address: 64, bytes: LINE as u16 }),
            write: first(Request::Write { dst: MEMORY, address: 64, data }),
        },
        whole: UnloadedLatency { read: whole(true), write: whole(false) },
    }
}

fn whole(is_read: bool) -> Time {
    let mut bed = testbed();
    bed.hosts[usize::from(COMPUTE)].submit(0, request(RecordAccess { is_read, record: 1 }));
    let at = loop {
        bed.tick();
        let read = bed.hosts[usize::from(COMPUTE)].completions().next().map(|completion| completion.at);
        let written = bed.memory[usize::from(MEMORY)].writes.first().map(|(.., at)| *at);
        // A write completes at the compute node when it has been sent, so wait until memory has received it.
        if let Some(at) = if is_read { read } else { written } {
            break at;
        }
    };
    steps::PCS_CYCLE * (at - LINKS * WIRE) + wire(LINKS)
}

fn testbed() -> Testbed {
    let (cycle, counts_control) = (steps::PCS_CYCLE, true);
    let switch = SwitchConfig { ports: 2, chunk: 256, policy: Order::Srpt, cycle, counts_control };
    let host = HostConfig { node: 0, chunk: 256, max_active: 3, mega: None, timeout: None };
    Testbed::new(switch, host, MuxPolicy::Fair, WIRE as usize)
}

fn request(access: RecordAccess) -> Request {
    let address = access.record * u64::from(READ);
    match access.is_read {
        true => Request::Read { dst: MEMORY, address, bytes: READ },
        false => Request::Write { dst: MEMORY, address, data: vec![0; usize::from(WRITE)] },
    }
}
