//! EDM figure 5: cycles between the points of the path at which blocks can be observed.

use super::edm_table1::{MEMORY, between, through_lines_of};
use crate::computed::Computed;
use unrack_phy::Block;
use unrack_phy::edm::{Body, MemoryMessage, Mux, MuxPolicy};
use unrack_phy::mac::Framer;
use unrack_phy::pcs::Encoder;
use unrack_phy::stack::Request;
use unrack_protocol::edm::{Demand, GrantPolicy as Order, Scheduler, SchedulerConfig, scheduler, steps};
use unrack_units::Time;

/// Returns the cycles of each step, and the number of blocks in a buffer.
pub(super) fn values() -> Computed {
    values_over(0)
}

/// Returns the same values over lines that each take this many cycles, which are not subtracted.
pub(super) fn values_over(line: usize) -> Computed {
    let read = Request::Read { dst: MEMORY, address: 64, bytes: 64 };
    let write = Request::Write { dst: MEMORY, address: 64, data: vec![0; 64] };
    let mut values = Computed::new();
    for (name, request, granted) in [("read", read, "request_to_data"), ("write", write, "grant_to_data")] {
        let (all, crossings) = through_lines_of(line, request);
        let [asks, matched, makes_data, forwarded] =
            between(&format!("edm_{name}"), &crossings).map(|(_, cycles)| cycles);
        let links = 4 * 2 * steps::PCS_CYCLES;
        values.insert(format!("asks_{name}"), asks as f64);
        values.insert("switch_grant".into(), matched as f64);
        values.insert(granted.into(), makes_data as f64);
        values.insert(format!("forward_{name}"), forwarded as f64);
        let rest = all - asks - matched - makes_data - forwarded - links;
        values.insert(format!("receive_{name}"), rest as f64);
    }
    values.insert("iteration".into(), iteration());
    values.insert("buffered".into(), buffered() as f64);
    values
}

/// Returns the number of cycles from the cycle in which a demand is at the head of its list to the cycle in which the scheduler
/// creates its grant.
fn iteration() -> f64 {
    let mut scheduler = Scheduler::new(SchedulerConfig {
        ports: 2,
        chunk: 256,
        policy: Order::Srpt,
        pairs_in_order: true,
        iteration: steps::PCS_CYCLE * scheduler::ITERATION_CYCLES,
        block: steps::PCS_CYCLE,
        framing: Time::ZERO,
        control: Time::ZERO,
    });
    let mut grants = Vec::new();
    scheduler.handle_demand(Time::ZERO, Demand { src: 0, dst: 1, bytes: 64, token: 0, request: Time::ZERO });
    scheduler.run(Time::ZERO, &mut grants);
    (grants[0].at.as_ps() / steps::PCS_CYCLE.as_ps()) as f64
}

/// Returns the maximum number of blocks of a 9 KB frame that wait while the memory traffic has a block in every cycle.
fn buffered() -> usize {
    let (mut framer, mut columns, mut encoder) = (Framer::default(), Vec::new(), Encoder::default());
    framer.frame(&[0; 9_014], &mut columns);
    let frame: Vec<Block> = columns.into_iter().map(|column| encoder.encode(column)).collect();
    let mut message = Vec::new();
    MemoryMessage { node: MEMORY, id: 0, body: Body::Response { last: true, data: vec![0; 256] } }
        .blocks(&mut message);
    let most = |policy| {
        let (mut mux, mut frame) = (Mux::new(policy), frame.iter().copied());
        let mut memory = message.iter().copied().cycle().peekable();
        let mut cycle = |has_message| {
            let block = mux.takes_frame_block().then(|| frame.next().unwrap_or(Block::IDLE));
            let offered = memory.peek().copied().filter(|_| has_message);
            if mux.tick(block, offered).took_memory {
                memory.next();
            }
            mux.buffered()
        };
        // The messages begin when the frame is already on the line.
        (0..500).map(|now| cycle(now > 10)).max().unwrap_or(0)
    };
    most(MuxPolicy::Fair).max(most(MuxPolicy::Strict))
}
