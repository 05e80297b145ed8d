//! EDM §4.2.1, §3.2.1 and §3.3 on the testbed of figure 4: frames on the same links, read-modify-writes, and what fails.

use super::edm_table1::{COMPUTE, MEMORY, wire};
use crate::computed::Computed;
use unrack_phy::Block;
use unrack_phy::edm::{MuxPolicy, RmwOperation};
use unrack_phy::mac::Framer;
use unrack_phy::pcs::Encoder;
use unrack_phy::stack::{Completion, HostConfig, Request, RequestOutcome, SwitchConfig, Testbed};
use unrack_protocol::edm::{GrantPolicy, steps};

/// Timeout of reads, in cycles. The paper states no time.
const TIMEOUT: u64 = 5_000;
/// Cycle in which a request is submitted, when frames are on all links.
const START: u64 = 100;
const READ: Request = Request::Read { dst: MEMORY, address: 64, bytes: 64 };

/// Returns latencies in nanoseconds, and counts of what ended how.
pub(super) fn values() -> Computed {
    values_on(mirrored)
}

/// Returns the same without a second switch: the rows on mirroring use the only switch.
pub(super) fn one_switch() -> Computed {
    values_on(|| testbed(MuxPolicy::Fair))
}

/// Returns the values with this testbed in the rows on mirroring.
fn values_on(mirrored: fn() -> Testbed) -> Computed {
    let strict = |frame| latency(&mut framed(MuxPolicy::Strict, frame));
    let fair = |frame| latency(&mut framed(MuxPolicy::Fair, frame));
    let mut values = Computed::from([
        ("read".into(), latency(&mut testbed(MuxPolicy::Fair))),
        ("read_1500_strict".into(), strict(1_500)),
        ("read_9000_strict".into(), strict(9_000)),
        ("read_1500_fair".into(), fair(1_500)),
        ("read_9000_fair".into(), fair(9_000)),
        ("mirrored".into(), latency(&mut mirrored())),
    ]);
    let mut dead = mirrored();
    dead.stars[0].kill();
    values.insert("mirrored_dead".into(), latency(&mut dead));
    let swap = RmwOperation::CompareSwap { expected: 0, new: 1 };
    let swap = Request::Modify { dst: MEMORY, address: 64, operation: swap };
    let mut bed = testbed(MuxPolicy::Fair);
    values.insert("swap".into(), ns(first_of(&mut bed, swap).first));
    let mut cut = testbed(MuxPolicy::Fair);
    cut.stars[0].cut(MEMORY);
    let ended = first_of(&mut cut, READ);
    values.insert("null".into(), f64::from(ended.outcome == RequestOutcome::Null));
    values.insert("null_cycles".into(), ended.at as f64);
    values.insert("disabled".into(), disabled_share());
    values
}

fn parts() -> (SwitchConfig, HostConfig) {
    let (cycle, counts_control) = (steps::PCS_CYCLE, true);
    let switch = SwitchConfig { ports: 2, chunk: 256, policy: GrantPolicy::Srpt, cycle, counts_control };
    (switch, HostConfig { node: 0, chunk: 256, max_active: 3, mega: None, timeout: Some(TIMEOUT) })
}

fn testbed(policy: MuxPolicy) -> Testbed {
    let (switch, host) = parts();
    Testbed::new(switch, host, policy, 0)
}

fn mirrored() -> Testbed {
    let (switch, host) = parts();
    Testbed::mirrored(switch, host, MuxPolicy::Fair, 0)
}

/// Returns a testbed in which frames of this payload are on every link in both directions, one after the other.
fn framed(policy: MuxPolicy, payload: usize) -> Testbed {
    let mut bed = testbed(policy);
    for node in [COMPUTE, MEMORY] {
        bed.stars[0].send_up(node, frames(payload));
        bed.stars[0].send_down(node, frames(payload));
    }
    (0..START).for_each(|_| bed.tick());
    bed
}

/// Returns the blocks of frames that occupy a link for at least a thousand cycles.
fn frames(payload: usize) -> Vec<Block> {
    let (mut framer, mut columns, mut encoder) = (Framer::default(), Vec::new(), Encoder::default());
    let frame = vec![0; payload + 14];
    (0..8_000 / payload + 1).for_each(|_| framer.frame(&frame, &mut columns));
    columns.into_iter().map(|column| encoder.encode(column)).collect()
}

/// Returns the time until the first word of a read of 64 B arrives, as table 1 counts it.
fn latency(bed: &mut Testbed) -> f64 {
    let now = bed.now();
    ns(first_of(bed, READ).first - now)
}

fn ns(cycles: u64) -> f64 {
    (steps::PCS_CYCLE * cycles + wire(4)).as_ns_f64()
}

/// Runs a request until it has ended.
fn first_of(bed: &mut Testbed, request: Request) -> Completion {
    let now = bed.now();
    bed.hosts[usize::from(COMPUTE)].submit(now, request);
    loop {
        bed.tick();
        if let Some(ended) = bed.hosts[usize::from(COMPUTE)].completions().next() {
            return ended;
        }
    }
}

/// Returns the share of single wrong bits in the first block of a write after which the switch no longer uses the link.
fn disabled_share() -> f64 {
    let is_disabled = |bit: u32| {
        let mut bed = testbed(MuxPolicy::Fair);
        let data = vec![0x5a; 64];
        bed.hosts[usize::from(COMPUTE)].submit(0, Request::Write { dst: MEMORY, address: 64, data });
        let mut is_spoilt = false;
        for _ in 0..200 {
            bed.tick();
            bed.stars[0].replace_up(COMPUTE, |block| {
                if is_spoilt || block == Block::IDLE {
                    return block;
                }
                is_spoilt = true;
                match bit {
                    0 | 1 => Block { header: block.header ^ 1 << bit, ..block },
                    _ => Block { payload: block.payload ^ 1 << (bit - 2), ..block },
                }
            });
        }
        bed.stars[0].switch.is_disabled(COMPUTE)
    };
    (0..66).filter(|bit| is_disabled(*bit)).count() as f64 / 66.0
}
