//! `edm` with `wire = "blocks"` against the testbed of the PHY, message by message.

use crate::common;

use common::{assert_conserved, completion_ps, run};
use proptest::prelude::*;
use unrack_phy::edm::{MuxPolicy, RmwOperation};
use unrack_phy::stack::{HostConfig, Request, RequestOutcome, SwitchConfig, Testbed};
use unrack_protocol::edm::GrantPolicy;
use unrack_sim::fabric::edm::{Edm, EdmConfig, SchedulingOrder, WireContent};
use unrack_sim::network::StarNetwork;
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Kind, Message};

const CYCLE: Time = Time::from_ps(2_560);
/// PMA and transceivers at both ends, and 10 ns of fibre: 18.75 cycles, rounded up.
const WIRE: usize = 19;

fn config(policy: SchedulingOrder) -> EdmConfig {
    EdmConfig { wire: WireContent::Blocks, scheduler_ghz: 0.390_625, policy, ..EdmConfig::default() }
}

fn star(nodes: u32, gbps: u64) -> StarNetwork {
    let (rate, propagation) = (Rate::from_gbps(gbps), Time::from_ns(10));
    StarNetwork { nodes, rate, propagation, switch_latency: Time::ZERO }
}

fn blocks(nodes: u32, policy: SchedulingOrder) -> Edm {
    Edm::new(&star(nodes, 25), &config(policy)).unwrap()
}

/// Runs a script in the testbed. Returns for each message the cycles from its entry into its stack to its last block.
fn in_the_testbed(nodes: u16, policy: GrantPolicy, script: &[(Time, Message)]) -> Vec<u64> {
    let (cycle, counts_control) = (CYCLE, true);
    let switch = SwitchConfig { ports: nodes, chunk: 256, policy, cycle, counts_control };
    let host = HostConfig { node: 0, chunk: 256, max_active: 3, mega: None, timeout: None };
    let mut bed = Testbed::new(switch, host, MuxPolicy::Fair, WIRE);
    let entry = |at: Time| at.as_ps() / CYCLE.as_ps() + 1;
    let mut took = vec![None; script.len()];
    let mut tickets = vec![Vec::new(); usize::from(nodes)];
    let (mut waiting, mut written) = (script.iter().enumerate().peekable(), vec![0; script.len()]);
    while took.iter().any(Option::is_none) {
        while let Some((n, (at, message))) = waiting.next_if(|(_, (at, _))| entry(*at) == bed.now()) {
            // Each write has addresses that no other one has.
            let (dst, bytes, address) = (message.dst as u16, message.bytes as usize, (n as u64 + 1) << 32);
            let request = match message.kind {
                Kind::Read => Request::Read { dst, address: 0, bytes: bytes as u16 },
                Kind::Rmw => {
                    let operation = RmwOperation::CompareSwap { expected: 1, new: 2 };
                    Request::Modify { dst, address: 1 << 60, operation }
                }
                Kind::Write | Kind::Flow => Request::Write { dst, address, data: vec![7; bytes] },
            };
            let ticket = bed.hosts[message.src as usize].submit(entry(*at), request);
            assert_eq!(ticket as usize, tickets[message.src as usize].len());
            tickets[message.src as usize].push(n);
        }
        bed.tick();
        for (host, tickets) in bed.hosts.iter_mut().zip(&tickets) {
            for end in host.completions().filter(|end| end.outcome != RequestOutcome::Sent) {
                let n = tickets[end.ticket as usize];
                took[n] = Some(end.at - entry(script[n].0));
            }
        }
        for (address, bytes, _, at) in bed.memory.iter_mut().flat_map(|memory| memory.writes.drain(..)) {
            let n = ((address >> 32) as usize).wrapping_sub(1);
            if n < script.len() {
                written[n] += bytes as u64;
                if written[n] == script[n].1.bytes {
                    took[n] = Some(at - entry(script[n].0));
                }
            }
        }
        assert!(bed.now() < 1_000_000, "the testbed does not end");
    }
    took.into_iter().flatten().collect()
}

fn scripts() -> impl Strategy<Value = (u32, Vec<(Time, Message)>)> {
    let message = (0u64..400_000, 0u32..5, 1u32..5, 0u8..4, prop_oneof![Just(64u64), 1u64..300, 1u64..3_000]);
    (2u32..6, proptest::collection::vec(message, 1..40)).prop_map(|(nodes, rows)| {
        let mut script: Vec<_> = rows
            .into_iter()
            .map(|(ps, src, offset, kind, bytes)| {
                let src = src % nodes;
                let dst = (src + 1 + (offset - 1) % (nodes - 1)) % nodes;
                let message = match kind {
                    0 | 1 => Message::read(src, dst, bytes),
                    2 => Message::write(src, dst, bytes),
                    _ => Message::rmw(src, dst, 1),
                };
                (Time::from_ps(ps), message)
            })
            .collect();
        script.sort_by_key(|(at, _)| *at);
        (nodes, script)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_message_takes_the_cycles_of_the_testbed((nodes, script) in scripts(), srpt in any::<bool>()) {
        let (order, policy) = match srpt {
            true => (SchedulingOrder::Srpt, GrantPolicy::Srpt),
            false => (SchedulingOrder::Fcfs, GrantPolicy::Fcfs),
        };
        let cycles = in_the_testbed(nodes as u16, policy, &script);
        let run = run(blocks(nodes, order), script);
        assert_conserved(&run);
        for (n, cycles) in cycles.into_iter().enumerate() {
            prop_assert_eq!(run.outcomes[n].completion(), Some(CYCLE * cycles), "message {} {:?}", n, run.messages[n]);
        }
    }
}

/// The last of the ten blocks of a write arrives nine cycles after the first, which table 1 counts; so does that of the nine blocks of an
/// answer after eight. The wire has a quarter of a cycle more on each of four links than in the table.
#[test]
fn alone_is_table_1_and_the_other_blocks() {
    let rounded = 4 * (WIRE as u64 * 2_560 - 48_000);
    let alone =
        |message| completion_ps(&run(blocks(2, SchedulingOrder::Fcfs), vec![(Time::ZERO, message)]), 0);
    assert_eq!(alone(Message::write(0, 1, 64)), 296_960 + rounded + 9 * 2_560);
    assert_eq!(alone(Message::read(0, 1, 64)), 299_520 + rounded + 8 * 2_560);
}

#[test]
fn a_message_alone_has_a_slowdown_of_one_whenever_it_comes() {
    let kinds = [Message::read, Message::write, Message::rmw];
    for (n, make) in kinds.into_iter().enumerate() {
        for bytes in [1, 8, 64, 100, 256, 257, 4_096, 65_535] {
            let at = Time::from_ps(1_000_003 * (n as u64 + 1) + bytes);
            let run = run(blocks(3, SchedulingOrder::Srpt), vec![(at, make(1, 2, bytes))]);
            assert_eq!(run.slowdown(0), Some(1.0), "{bytes} B");
        }
    }
}

/// A write of 64 B is ten blocks and a notification; the grant comes back as one block.
#[test]
fn every_block_of_a_write_takes_its_time_on_the_links() {
    use unrack_sim::LinkId;
    let run = run(blocks(2, SchedulingOrder::Fcfs), vec![(Time::ZERO, Message::write(0, 1, 64))]);
    assert_eq!(run.busy.busy(LinkId::Host(0)), CYCLE * 11);
    assert_eq!(run.busy.busy(LinkId::Port(0)), CYCLE);
    assert_eq!(run.busy.busy(LinkId::Port(1)), CYCLE * 10);
}

#[test]
fn what_blocks_cannot_carry_is_refused() {
    let refused = |gbps, config: EdmConfig| Edm::new(&star(2, gbps), &config).err().map(|error| error.key);
    let fcfs = config(SchedulingOrder::Fcfs);
    assert_eq!(refused(25, fcfs), None);
    assert_eq!(refused(100, fcfs).unwrap(), "fabric.cycle");
    let fast = EdmConfig { cycle: Time::from_ps(640), scheduler_ghz: 1.5625, ..fcfs };
    assert_eq!(refused(100, fast), None);
    assert_eq!(refused(25, EdmConfig { scheduler_ghz: 3.0, ..fcfs }).unwrap(), "fabric.scheduler_ghz");
    assert_eq!(refused(25, EdmConfig { backup: true, ..fcfs }).unwrap(), "fabric.backup");
    assert_eq!(refused(25, EdmConfig { mega: Some(Bytes::new(256)), ..fcfs }).unwrap(), "fabric.mega");
    assert_eq!(refused(25, EdmConfig { pairs_in_order: false, ..fcfs }).unwrap(), "fabric.pairs_in_order");
}
