//! Nodes with one switch or two switches, cycle by cycle.

mod mirrored;

use proptest::prelude::*;
use std::collections::VecDeque;
use unrack_phy::Block;
use unrack_phy::edm::{ControlFields, Kind, Malformed, MuxPolicy, RmwOperation, StartFields, layout};
use unrack_phy::mac::{Deframer, Framer};
use unrack_phy::pcs::{BlockDecoder, Encoder};
use unrack_phy::stack::{Completion, HostConfig, Request, RequestOutcome, SwitchConfig, Testbed};
use unrack_protocol::edm::{self, EdmLatencies, steps};
use unrack_units::Time;

const HOST: HostConfig = HostConfig { node: 0, chunk: 256, max_active: 3, mega: None, timeout: None };

fn testbed(ports: u16, policy: MuxPolicy) -> Testbed {
    testbed_with(ports, policy, HOST)
}

fn testbed_with(ports: u16, policy: MuxPolicy, host: HostConfig) -> Testbed {
    let (cycle, counts_control) = (steps::PCS_CYCLE, true);
    let switch =
        SwitchConfig { ports, chunk: host.chunk, policy: edm::GrantPolicy::Srpt, cycle, counts_control };
    Testbed::new(switch, host, policy, 0)
}

/// Runs until no message and no frame is in transit.
fn run(bed: &mut Testbed, most: u64) -> Vec<(usize, Completion)> {
    let mut completions = Vec::new();
    let end = bed.now() + most;
    while !bed.is_idle() || bed.now() < 20 {
        bed.tick();
        for (node, host) in bed.hosts.iter_mut().enumerate() {
            completions.extend(host.completions().map(|completion| (node, completion)));
        }
        assert!(bed.now() < end, "not over after {most} cycles");
    }
    (0..40).for_each(|_| bed.tick());
    completions
}

/// Returns the time of `cycles`, plus eight times the PMA and transceivers and the four hops, which table 1 adds.
fn with_the_wire(cycles: u64) -> Time {
    let steps = EdmLatencies::default();
    steps.cycles(cycles) + steps.pma * 8 + Time::from_ns(10) * 4
}

#[test]
fn table_1_in_cycles() {
    let mut bed = testbed(2, MuxPolicy::Fair);
    bed.hosts[0].submit(0, Request::Read { dst: 1, address: 64, bytes: 64 });
    let read = run(&mut bed, 200);
    assert_eq!(read[0].1.first, 42);
    assert_eq!(with_the_wire(read[0].1.first).as_ps(), 299_520);
    assert_eq!(EdmLatencies::default().cycles(read[0].1.first - 16).as_ps() + 16 * 2_560, 107_520);

    let mut bed = testbed(2, MuxPolicy::Fair);
    bed.hosts[0].submit(0, Request::Write { dst: 1, address: 64, data: vec![7; 64] });
    run(&mut bed, 200);
    let (address, bytes, first, at) = bed.memory[1].writes[0];
    assert_eq!((address, bytes, first), (64, 64, 41));
    assert_eq!(with_the_wire(first).as_ps(), 296_960);
    assert_eq!(at - first, 9, "ten blocks, one a cycle");
}

/// Figure 5, step by step, from the cycles in which blocks leave the multiplexers.
#[test]
fn figure_5_in_cycles() {
    let crossings = |request| {
        let mut bed = testbed(2, MuxPolicy::Fair);
        bed.crossings = Some(Vec::new());
        bed.hosts[0].submit(0, request);
        run(&mut bed, 200);
        bed.crossings.unwrap()
    };
    let is = |kind| move |block: &Block| block.block_type() == Some(kind);
    let pcs = 2 * steps::PCS_CYCLES;

    let blocks = crossings(Request::Write { dst: 1, address: 64, data: vec![7; 64] });
    let at = |kind, up| blocks.iter().find(|c| c.up == up && is(kind)(&c.block)).unwrap().cycle;
    assert_eq!(at(layout::N, true), steps::MAKE_NOTIFICATION);
    let matched = steps::CLASSIFY + steps::SCHEDULE + steps::MAKE_GRANT;
    assert_eq!(at(layout::G, false) - at(layout::N, true) - pcs, matched);
    let granted = steps::PARSE_GRANT + steps::READ_GRANT_QUEUE + steps::MAKE_DATA;
    assert_eq!(at(layout::MS, true) - at(layout::G, false) - pcs, granted);
    assert_eq!(at(layout::MS, false) - at(layout::MS, true) - pcs, steps::CLASSIFY + steps::FORWARD);

    let blocks = crossings(Request::Read { dst: 1, address: 64, bytes: 64 });
    let at = |kind, up| blocks.iter().find(|c| c.up == up && is(kind)(&c.block)).unwrap().cycle;
    assert_eq!(at(layout::MST, true), steps::MAKE_NOTIFICATION);
    assert_eq!(at(layout::MST, false) - at(layout::MST, true) - pcs, matched);
    let read = steps::RECEIVE_REQUEST + steps::READ_GRANT_QUEUE + steps::MAKE_DATA;
    assert_eq!(at(layout::MS, true) - at(layout::MST, false) - pcs, read);
    assert_eq!(blocks.iter().filter(|c| c.node == 1 && !c.up).count(), 1, "the request is the grant");
}

fn encoded(frames: &[Vec<u8>]) -> VecDeque<Block> {
    let (mut framer, mut columns) = (Framer::default(), Vec::new());
    frames.iter().for_each(|frame| framer.frame(frame, &mut columns));
    framer.idle(2, &mut columns);
    let mut encoder = Encoder::default();
    columns.into_iter().map(|column| encoder.encode(column)).collect()
}

/// §4.2.1: about 300 ns, even with 9 KB of a frame on every wire.
#[test]
fn a_jumbo_frame_on_every_link_costs_a_few_cycles() {
    let frame = vec![3; 9_014];
    for (policy, most) in [(MuxPolicy::Fair, 2 * 4), (MuxPolicy::Strict, 0)] {
        let mut bed = testbed(2, policy);
        let (mut decoders, mut frames) = (vec![BlockDecoder::default(); 2], 0);
        let mut deframers = vec![Deframer::default(); 2];
        for node in 0..2 {
            bed.stars[0].send_up(node, encoded(std::slice::from_ref(&frame)));
            bed.stars[0].send_down(node, encoded(std::slice::from_ref(&frame)));
        }
        (0..100).for_each(|_| bed.tick());
        bed.hosts[0].submit(100, Request::Read { dst: 1, address: 64, bytes: 64 });
        let mut first = None;
        while bed.now() < 3_000 {
            bed.tick();
            first = first.or(bed.hosts[0].completions().next().map(|completion| completion.first));
            for node in 0..2 {
                let column = decoders[node].decode(bed.stars[0].to_node[node]);
                if let Some(received) = deframers[node].handle(column) {
                    assert_eq!(received, Ok(&frame[..]));
                    frames += 1;
                }
            }
        }
        assert_eq!(frames, 2);
        let cycles = first.unwrap() - 100;
        assert!((42..=42 + most).contains(&cycles), "{policy:?}: {cycles}");
    }
}

#[test]
fn a_lock_is_taken_once() {
    let mut bed = testbed(4, MuxPolicy::Fair);
    let swap = RmwOperation::CompareSwap { expected: 0, new: 1 };
    for node in 0..3 {
        bed.hosts[node].submit(0, Request::Modify { dst: 3, address: 8, operation: swap });
    }
    let completions = run(&mut bed, 1_000);
    let taken =
        completions.iter().filter(|(_, done)| done.outcome == RequestOutcome::Answer(vec![1])).count();
    let refused =
        completions.iter().filter(|(_, done)| done.outcome == RequestOutcome::Answer(vec![0])).count();
    assert_eq!((taken, refused), (1, 2));
    let now = bed.now();
    for operation in [RmwOperation::FetchAdd { addend: 41 }, RmwOperation::Swap { new: 9 }] {
        bed.hosts[0].submit(now, Request::Modify { dst: 3, address: 8, operation });
    }
    let words: Vec<_> = run(&mut bed, 1_000).into_iter().map(|(_, done)| done.outcome).collect();
    let word = |value: u64| RequestOutcome::Answer(value.to_le_bytes().to_vec());
    assert_eq!(words, [word(1), word(42)]);
}

/// §3.3: a request to a node that does not answer ends with NULL, and does not delay other requests.
#[test]
fn a_read_that_nobody_answers_ends_with_null() {
    let host = HostConfig { timeout: Some(500), max_active: 1, ..HOST };
    let mut bed = testbed_with(3, MuxPolicy::Fair, host);
    bed.hosts[0].submit(0, Request::Read { dst: 7, address: 0, bytes: 8 });
    bed.hosts[0].submit(0, Request::Read { dst: 1, address: 0, bytes: 8 });
    let completions = run(&mut bed, 2_000);
    let outcome = |ticket| completions.iter().find(|(_, done)| done.ticket == ticket).unwrap().1.clone();
    assert_eq!((outcome(0).outcome, outcome(0).at), (RequestOutcome::Null, 500));
    assert_eq!(outcome(1).outcome, RequestOutcome::Answer(vec![0; 8]));
    assert_eq!(bed.stars[0].switch.violations().senseless, 1);
}

#[test]
fn small_writes_go_under_one_notification() {
    let notified = |mega| {
        let mut bed = testbed_with(2, MuxPolicy::Fair, HostConfig { mega, max_active: 1, ..HOST });
        bed.crossings = Some(Vec::new());
        for n in 0..9 {
            bed.hosts[0].submit(0, Request::Write { dst: 1, address: n * 32, data: vec![n as u8; 32] });
        }
        run(&mut bed, 5_000);
        assert_eq!(bed.memory[1].writes.len(), 9);
        assert!(bed.memory[1].writes.iter().zip(0..).all(|(write, n)| write.0 == n * 32));
        assert_eq!(bed.stars[0].switch.violations(), Default::default());
        let blocks = bed.crossings.unwrap();
        blocks.iter().filter(|c| c.block.block_type() == Some(layout::N)).count()
    };
    assert_eq!(notified(None), 9);
    assert_eq!(notified(Some(256)), 2, "the first alone, then what waited");
}

fn malformed(bed: &Testbed, node: usize) -> Vec<(Malformed, u64)> {
    let count = |kind: &Malformed| (*kind, bed.hosts[node].assembler(0).malformed(*kind));
    Malformed::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect()
}

/// Lets node 0 write to node 1 over a line that is spoilt from its 15th data block on, and node 2 write after it.
fn spoilt(watched: bool, mut spoil: impl FnMut(u64, Block) -> Block) -> Testbed {
    let mut bed = testbed(3, MuxPolicy::Fair);
    if watched {
        bed.stars[0].switch.watch(16);
    }
    let data = vec![0x5a; 256];
    bed.hosts[0].submit(0, Request::Write { dst: 1, address: 0, data: data.clone() });
    let mut sent = 0;
    for now in 0..400 {
        if now == 30 {
            bed.hosts[2].submit(now, Request::Write { dst: 1, address: 4096, data: data.clone() });
        }
        bed.tick();
        bed.stars[0].replace_up(0, |block| {
            sent += u64::from(sent > 0 || block.block_type() == Some(layout::MS));
            if sent > 15 { spoil(sent - 16, block) } else { block }
        });
    }
    bed
}

/// If a sender falls silent within a granted message, others wait for it only as long as the switch does.
#[test]
fn a_silent_sender_does_not_hold_up_others() {
    let bed = spoilt(true, |_, _| Block::IDLE);
    assert_eq!(bed.stars[0].switch.violations().silent, 1);
    assert_eq!(malformed(&bed, 1), [(Malformed::Marked, 1)]);
    assert_eq!(bed.memory[1].writes.iter().map(|write| write.0).collect::<Vec<_>>(), [4096]);
    assert!(!bed.stars[0].switch.is_disabled(0), "it may be at fault, its link is not");
    let waits = spoilt(false, |_, _| Block::IDLE);
    assert!(waits.memory[1].writes.is_empty() && waits.stars[0].switch.violations() == Default::default());
    // The sender continues in the end, but too late, so that the rest of its message belongs to no message.
    let late = spoilt(true, |at, block| if at < 17 { Block::IDLE } else { block });
    assert_eq!(malformed(&late, 1), [(Malformed::Marked, 1)]);
    assert_eq!(late.memory[1].writes.len(), 1);
}

/// Whichever bit is wrong on the way to the switch, the receiver knows that its own link is sound.
#[test]
fn the_switch_marks_what_came_to_it_damaged() {
    for at in 0..18 {
        for bit in 0..66 {
            let flip = |block: Block| match bit {
                0 | 1 => Block { header: block.header ^ 1 << bit, ..block },
                _ => Block { payload: block.payload ^ 1 << (bit - 2), ..block },
            };
            let bed = spoilt(true, |now, block| if now == at { flip(block) } else { block });
            assert!(bed.stars[0].switch.is_disabled(0), "block {at}, bit {bit}");
            assert_eq!(malformed(&bed, 1), [(Malformed::Marked, 1)], "block {at}, bit {bit}");
            assert_eq!(bed.memory[1].writes.len(), 1);
        }
    }
}

#[derive(Debug, Clone)]
struct Step {
    after: u8,
    src: u16,
    offset: u16,
    line: u8,
    bytes: u16,
    kind: u8,
}

const NODES: u16 = 5;

fn steps_of() -> impl Strategy<Value = Vec<Step>> {
    let one = (0..30_u8, 0..NODES, 1..NODES, 0..8_u8, 1..900_u16, 0..4_u8)
        .prop_map(|(after, src, offset, line, bytes, kind)| Step { after, src, offset, line, bytes, kind });
    proptest::collection::vec(one, 1..60)
}

fn nonsense() -> impl Strategy<Value = Block> {
    let kinds: Vec<u8> = layout::TYPES.into_iter().chain(unrack_phy::block::types::ALL).collect();
    let control = ControlFields { kind: Kind::Write, node: 1, id: 3, size: 700 };
    prop_oneof![
        (prop::sample::select(kinds), any::<u64>())
            .prop_map(|(kind, rest)| Block::control(rest & !0xff | u64::from(kind))),
        (0..4_u8, any::<u64>()).prop_map(|(header, payload)| Block { header, payload }),
        (0..9_u16, 0..2_u8).prop_map(move |(node, kind)| {
            ControlFields { node, ..control }.block([layout::N, layout::G][usize::from(kind)])
        }),
        (0..9_u16, 0..900_u16).prop_map(|(node, size)| {
            StartFields { kind: Kind::Write, last: true, node, id: 3, size, head: [0; 2] }.block()
        }),
        Just(Block::IDLE),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// If one link delivers arbitrary blocks, its port is disabled at the first damage, and the others continue to
    /// work.
    #[test]
    fn a_damaged_link_harms_no_other(blocks in proptest::collection::vec(nonsense(), 1..200)) {
        let mut bed = testbed(4, MuxPolicy::Fair);
        let mut blocks = blocks.into_iter();
        for n in 0..300_u64 {
            bed.tick();
            if let Some(block) = blocks.next() {
                bed.stars[0].replace_up(0, |_| block);
            }
            if n % 50 == 0 {
                let now = bed.now();
                bed.hosts[2].submit(now, Request::Read { dst: 3, address: n, bytes: 600 });
                bed.hosts[3].submit(now, Request::Write { dst: 2, address: n, data: vec![1; 600] });
            }
        }
        (0..3_000).for_each(|_| bed.tick());
        for node in [2, 3] {
            prop_assert_eq!(bed.hosts[node].completions().count(), 6);
            prop_assert!(!bed.stars[0].switch.is_disabled(node as u16));
        }
        prop_assert!(bed.memory[2].writes.iter().filter(|write| write.1 <= 256).count() >= 18);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// For any requests, with frames on the links: each request ends once, writes are in memory, nothing overtakes
    /// within a pair, no frame is harmed, and the switch sees no data that it did not grant.
    #[test]
    fn everything_arrives(
        all in steps_of(), with_frames in any::<bool>(), strict in any::<bool>(), mega in any::<bool>(),
    ) {
        let policy = if strict { MuxPolicy::Strict } else { MuxPolicy::Fair };
        let host = HostConfig { mega: mega.then_some(1_000), ..HOST };
        let mut bed = testbed_with(NODES, policy, host);
        bed.stars[0].switch.watch(16);
        let frames: Vec<Vec<u8>> = if with_frames { (0..6).map(|n| vec![n; 400]).collect() } else { Vec::new() };
        for node in 0..NODES {
            bed.stars[0].send_up(node, encoded(&frames));
            bed.stars[0].send_down(node, encoded(&frames));
        }
        let mut submitted = vec![Vec::new(); usize::from(NODES)];
        let mut done = vec![Vec::new(); usize::from(NODES)];
        let (mut decoders, mut deframers) = (vec![BlockDecoder::default(); 5], vec![Deframer::default(); 5]);
        let mut good = 0;
        let mut rest = all.iter().peekable();
        let mut due = 0;
        let mut quiet = 0;
        while quiet < 60 {
            let is_over = rest.peek().is_none() && bed.is_idle();
            quiet = if is_over { quiet + 1 } else { 0 };
            let now = bed.now();
            while let Some(step) = rest.next_if(|step| due + u64::from(step.after) <= now) {
                due = now;
                let dst = (step.src + step.offset) % NODES;
                // Each node writes to its own part of another's memory.
                let address = u64::from(step.src) << 20 | u64::from(step.line) << 10;
                let request = match step.kind {
                    0 | 1 => Request::Read { dst, address, bytes: step.bytes },
                    2 => Request::Write { dst, address, data: vec![step.bytes as u8; usize::from(step.bytes)] },
                    _ => Request::Modify { dst, address: 1 << 40, operation: RmwOperation::FetchAdd { addend: 1 } },
                };
                let src = usize::from(step.src);
                let ticket = bed.hosts[src].submit(now, request.clone());
                prop_assert_eq!(ticket as usize, submitted[src].len());
                submitted[src].push(request);
            }
            bed.tick();
            for node in 0..usize::from(NODES) {
                done[node].extend(bed.hosts[node].completions());
                if let Some(frame) = deframers[node].handle(decoders[node].decode(bed.stars[0].to_node[node])) {
                    prop_assert!(frame.is_ok());
                    good += 1;
                }
            }
            prop_assert!(bed.now() < 100_000);
        }
        prop_assert_eq!(bed.stars[0].switch.violations(), Default::default());
        prop_assert_eq!(good, frames.len() * usize::from(NODES));
        let mut added = 0;
        for (node, requests) in submitted.iter().enumerate() {
            prop_assert_eq!(done[node].len(), requests.len());
            prop_assert_eq!(bed.hosts[node].strays(), 0);
            for (ticket, request) in requests.iter().enumerate() {
                let completion = done[node].iter().find(|done| done.ticket as usize == ticket).unwrap();
                match (request, &completion.outcome) {
                    (Request::Read { bytes, .. }, RequestOutcome::Answer(data)) => {
                        prop_assert_eq!(data.len(), usize::from(*bytes));
                    }
                    (Request::Modify { .. }, RequestOutcome::Answer(_)) => added += 1,
                    (Request::Write { .. }, RequestOutcome::Sent) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
        let words: u64 = bed.memory.iter_mut().map(|memory| {
            use unrack_phy::stack::MemoryController;
            u64::from_le_bytes(memory.read(1 << 40, 8).try_into().unwrap())
        }).sum();
        prop_assert_eq!(words, added);
        for node in 0..NODES {
            prop_assert_eq!(bed.stars[0].switch.queued(node), 0);
            prop_assert_eq!(bed.stars[0].switch.circuits(node).count(), 0);
        }
    }
}
