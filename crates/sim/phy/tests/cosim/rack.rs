//! Comparison of nodes and a switch (`rtl/cosim/rack_bench.sv`): the output of every multiplexer in every cycle, and
//! the deliveries to applications and memory.

use super::{cycles, program};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use unrack_phy::Block;
use unrack_phy::edm::{MuxPolicy, RmwOperation, layout};
use unrack_phy::mac::Framer;
use unrack_phy::pcs::{Column, Encoder};
use unrack_phy::stack::{HostConfig, MemoryController, Request, RequestOutcome, SwitchConfig, Testbed};
use unrack_protocol::edm::{self, EdmLatencies, steps};
use unrack_units::Time;

const IN: usize = 46;
const OUT: usize = 50;
/// Number of idle cycles after which every receiver is locked.
const TO_LOCK: u64 = 100;
/// End of the memory for reads and writes, which begins at zero. The words for read-modify-writes follow it.
const MEMORY: u64 = 1 << 13;
const WORDS: u32 = 64;

/// Returns the initial byte at an address. It is the same in every node and in the bench.
fn contents(address: u64) -> u8 {
    (address.wrapping_mul(167) ^ address >> 8) as u8
}

/// Returns a node's part of the input of one cycle.
fn input(request: Option<&Request>, traffic: Traffic, up: Column, down: Column) -> [u8; IN] {
    let mut bytes = [0; IN];
    let (is_write, dst, address, size) = match request {
        None => (false, 0, 0, 0),
        Some(Request::Read { dst, address, bytes }) => (false, *dst, *address, *bytes),
        Some(Request::Write { dst, address, data }) => (true, *dst, *address, data.len() as u16),
        Some(Request::Modify { dst, address, .. }) => (false, *dst, *address, 0),
    };
    let strict = traffic.policy == MuxPolicy::Strict;
    bytes[0] = u8::from(request.is_some()) | u8::from(is_write) << 1 | u8::from(strict) << 2;
    if let Some(Request::Modify { operation, .. }) = request {
        bytes[0] |= 1 << 4 | (operation.opcode() as u8) << 5;
        let operands = match *operation {
            RmwOperation::CompareSwap { expected, new } => [expected, new],
            RmwOperation::FetchAdd { addend: one } | RmwOperation::Swap { new: one } => [one, 0],
        };
        bytes[28..44].copy_from_slice(&operands.map(u64::to_le_bytes).concat());
    }
    bytes[44..46].copy_from_slice(&traffic.timeout.to_le_bytes());
    bytes[1] = dst as u8;
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    bytes[4..9].copy_from_slice(&address.to_le_bytes()[..5]);
    for (at, column) in [(10, up), (19, down)] {
        bytes[at..at + 8].copy_from_slice(&column.data.to_le_bytes());
        bytes[at + 8] = column.control;
    }
    bytes
}

/// A node's part of the hardware's record of one cycle.
struct Said<'a>(&'a [u8; OUT]);

impl Said<'_> {
    fn flag(&self, at: usize) -> bool {
        self.0[0] >> at & 1 == 1
    }

    fn ready(&self) -> bool {
        self.flag(2)
    }

    fn begins(&self) -> bool {
        self.flag(3)
    }

    fn word(&self) -> bool {
        self.flag(4)
    }

    fn ends(&self) -> bool {
        self.flag(5)
    }

    fn is_write(&self) -> bool {
        self.flag(7)
    }

    fn last(&self) -> bool {
        self.0[1] & 1 == 1
    }

    fn overflow(&self) -> bool {
        self.0[1] & 2 != 0
    }

    fn disabled(&self) -> bool {
        self.0[1] & 8 != 0
    }

    fn bytes(&self) -> usize {
        usize::from(self.0[1] >> 4)
    }

    fn node(&self) -> u16 {
        u16::from_le_bytes([self.0[3], self.0[4]])
    }

    fn id(&self) -> u8 {
        self.0[2]
    }

    fn block(&self, at: usize) -> Block {
        let payload = u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight"));
        Block { header: self.0[at + 8], payload }
    }

    fn up(&self) -> Block {
        self.block(5)
    }

    fn down(&self) -> Block {
        self.block(14)
    }

    fn data(&self) -> &[u8] {
        &self.0[23..23 + self.bytes()]
    }

    fn address(&self) -> u64 {
        address_of(&self.0[31..36])
    }

    /// Returns the address of the word that was modified, if one was.
    fn modified(&self) -> Option<u64> {
        (self.0[36] & 1 == 1).then(|| address_of(&self.0[37..42]))
    }

    fn null(&self) -> bool {
        self.0[36] & 2 != 0
    }
}

fn address_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |address, byte| address << 8 | u64::from(*byte))
}

/// Traffic of a run.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    policy: MuxPolicy,
    order: edm::GrantPolicy,
    /// Requests: a node issues one in one of `one_in` cycles, for up to `longest` bytes, to one of the first `focus`
    /// nodes.
    one_in: u32,
    longest: u32,
    focus: u32,
    /// Bytes of the longest frame; 0 for none.
    frame: u32,
    /// Average number of cycles per wrong bit on lines to the switch; 0 for no wrong bits.
    wrong: u32,
    /// Average number of requests per read-modify-write; 0 for no read-modify-writes.
    modify: u32,
    /// Number of cycles after which a read ends with NULL; 0 for never.
    timeout: u16,
    /// Average number of cycles per old grant in the hardware, which must have no effect; 0 for no old grants.
    old: u32,
}

fn testbed(nodes: u16, traffic: Traffic) -> Testbed {
    let (cycle, counts_control) = (steps::PCS_CYCLE, false);
    let switch = SwitchConfig { ports: nodes, chunk: 256, policy: traffic.order, cycle, counts_control };
    let timeout = (traffic.timeout > 0).then_some(u64::from(traffic.timeout));
    let host = HostConfig { node: 0, chunk: 256, max_active: 3, mega: None, timeout };
    let mut bed = Testbed::new(switch, host, traffic.policy, 0);
    bed.crossings = Some(Vec::new());
    let data: Vec<u8> = (0..MEMORY).map(contents).collect();
    for memory in &mut bed.memory {
        memory.write(0, &data, 0, 0);
        memory.writes.clear();
    }
    bed
}

/// A delivery to a node: a whole message, as hardware and software both report it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Delivery {
    /// Cycles of the first and of the last block.
    first: u64,
    at: u64,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// A write: address and bytes.
    Write(u64, usize),
    /// The whole answer.
    Answer(Vec<u8>),
    /// NULL instead of an answer.
    Null,
}

/// A run: the hardware's input, and the software's output.
#[derive(Default)]
struct Run {
    /// Input by cycle and node.
    input: Vec<Vec<[u8; IN]>>,
    /// Output by cycle and node: the blocks that left the multiplexers to the switch and to the node, whether the
    /// node's port is disabled after that cycle, and whether the node issued a request.
    sent: Vec<Vec<(Block, Block, bool, bool)>>,
    deliveries: Vec<Vec<Delivery>>,
    /// Wrong bits: cycle, node and bit.
    wrong_bits: Vec<(u64, usize, u8)>,
}

/// Runs the software for `cycles` cycles. `ask` returns a node's request in a cycle, if there is one.
fn software(
    nodes: u16,
    traffic: Traffic,
    seed: u64,
    cycles: u64,
    mut ask: impl FnMut(u16, &mut Testbed, &mut Pcg64Mcg) -> Option<Request>,
) -> Run {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut bed = testbed(nodes, traffic);
    let count = usize::from(nodes);
    let mut run = Run { deliveries: vec![Vec::new(); count], ..Run::default() };
    let idle = input(None, traffic, Column::IDLE, Column::IDLE);
    run.input.resize(TO_LOCK as usize, vec![idle; count]);
    let mut columns: Vec<[VecDeque<Column>; 2]> = vec![Default::default(); count];
    for (node, ways) in columns.iter_mut().enumerate() {
        for (way, columns) in ways.iter_mut().enumerate() {
            let frames = frames(traffic.frame, cycles, &mut random);
            let mut encoder = Encoder::default();
            // The hardware's encoder has an idle block when the first column arrives.
            let blocks = [Block::IDLE].into_iter().chain(frames.iter().map(|column| encoder.encode(*column)));
            match way {
                0 => bed.stars[0].send_up(node as u16, blocks),
                _ => bed.stars[0].send_down(node as u16, blocks),
            }
            *columns = frames.into();
        }
    }
    let mut spoilt = vec![0; count];
    for now in 0..cycles {
        let mut inputs = vec![idle; count];
        let mut asked = vec![false; count];
        for node in 0..nodes {
            let at = usize::from(node);
            let request = ask(node, &mut bed, &mut random);
            let request = request.filter(|request| bed.hosts[at].is_ready(request.dst()));
            let head = |way: usize| columns[at][way].front().copied().unwrap_or(Column::IDLE);
            inputs[at] = input(request.as_ref(), traffic, head(0), head(1));
            if traffic.old > 0 && random.next_u32() % traffic.old == 0 {
                inputs[at][0] |= 1 << 7;
            }
            asked[at] = request.is_some();
            for (way, takes) in bed.stars[0].takes_frame_blocks(node).into_iter().enumerate() {
                if takes {
                    columns[at][way].pop_front();
                }
            }
            if let Some(request) = request {
                bed.hosts[at].submit(now, request);
            }
        }
        run.input.push(inputs);
        bed.tick();
        for node in 0..nodes {
            let at = usize::from(node);
            // A wrong bit on the line becomes three wrong bits behind the descrambler.
            let mut wrong = std::mem::take(&mut spoilt[at]);
            let mut header = 0;
            if traffic.wrong > 0 && random.next_u32() % traffic.wrong == 0 {
                let bit = random.next_u32() % 66;
                match bit.checked_sub(2) {
                    None => header = 1 << bit,
                    Some(bit) => wrong ^= 1_u128 << bit | 1 << (bit + 39) | 1 << (bit + 58),
                }
                run.wrong_bits.push((now, at, bit as u8));
            }
            spoilt[at] = wrong >> 64;
            let spoil =
                |block: Block| Block { header: block.header ^ header, payload: block.payload ^ wrong as u64 };
            bed.stars[0].replace_up(node, spoil);
        }
        let nothing = |node| {
            (Block::IDLE, Block::IDLE, bed.stars[0].switch.is_disabled(node), asked[usize::from(node)])
        };
        let mut sent: Vec<_> = (0..nodes).map(nothing).collect();
        for crossing in bed.crossings.as_mut().expect("wanted").drain(..) {
            let node = &mut sent[usize::from(crossing.node)];
            *if crossing.up { &mut node.0 } else { &mut node.1 } = crossing.block;
        }
        run.sent.push(sent);
        for (node, host) in bed.hosts.iter_mut().enumerate() {
            let answers = host.completions().filter_map(|done| match done.outcome {
                RequestOutcome::Answer(data) => Some((done.first, done.at, What::Answer(data))),
                RequestOutcome::Null => Some((done.first, done.at, What::Null)),
                RequestOutcome::Sent => None,
            });
            let writes = bed.memory[node].writes.drain(..);
            let writes = writes.map(|(address, bytes, first, at)| (first, at, What::Write(address, bytes)));
            let all = answers.chain(writes).map(|(first, at, what)| Delivery { first, at, what });
            run.deliveries[node].extend(all);
        }
    }
    run.deliveries.iter_mut().for_each(|deliveries| sort(deliveries));
    // A block is on the line two cycles after it has left the multiplexer.
    for (now, node, bit) in std::mem::take(&mut run.wrong_bits) {
        if let Some(inputs) = run.input.get_mut((TO_LOCK + now) as usize + 2) {
            inputs[node][0] |= 8;
            inputs[node][9] = bit;
        }
    }
    run
}

/// Sorts deliveries by cycle. A NULL comes after the other deliveries of its cycle, because its report takes no time.
fn sort(deliveries: &mut [Delivery]) {
    deliveries.sort_by_key(|delivery| (delivery.at, delivery.what == What::Null));
}

/// Returns columns for `cycles` cycles.
fn frames(longest: u32, cycles: u64, random: &mut Pcg64Mcg) -> Vec<Column> {
    let (mut framer, mut columns) = (Framer::default(), Vec::new());
    while longest > 0 && (columns.len() as u64) < cycles {
        let frame: Vec<u8> = (0..random.next_u32() % longest).map(|_| random.next_u32() as u8).collect();
        framer.frame(&frame, &mut columns);
        framer.idle((random.next_u32() % 60) as usize, &mut columns);
    }
    columns
}

/// Returns the hardware's deliveries to a node, from its records of each cycle.
fn delivered<'a>(said: impl Iterator<Item = (u64, Said<'a>)>) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    let mut answers: BTreeMap<(u16, u8), Vec<u8>> = BTreeMap::new();
    let (mut first, mut address, mut data) = (0, 0, Vec::<u8>::new());
    for (at, said) in said {
        if let Some(address) = said.modified() {
            deliveries.push(Delivery { first: at, at, what: What::Write(address, 8) });
        }
        if said.null() {
            deliveries.push(Delivery { first: at, at, what: What::Null });
        }
        if said.begins() {
            (first, data) = (at, Vec::new());
        }
        if said.word() {
            if data.is_empty() {
                address = said.address();
            }
            assert_eq!(said.address(), address + data.len() as u64, "words come in order");
            data.extend(said.data());
        }
        if !said.ends() {
            continue;
        }
        let data = std::mem::take(&mut data);
        if said.is_write() {
            assert!(data.iter().zip(address..).all(|(byte, address)| *byte == contents(address)));
            deliveries.push(Delivery { first, at, what: What::Write(address, data.len()) });
            continue;
        }
        let answer = answers.entry((said.node(), said.id())).or_default();
        answer.extend(data);
        if said.last() {
            deliveries.push(Delivery { first, at, what: What::Answer(std::mem::take(answer)) });
        }
    }
    sort(&mut deliveries);
    deliveries
}

/// Runs the hardware on the same input and compares everything. Returns the hardware's records, from the software's
/// first cycle on.
fn compare(program: &str, run: Run, name: &str) -> Vec<Vec<[u8; OUT]>> {
    let output = super::run(program, run.input.concat().concat());
    let (words, rest) = output.as_chunks::<OUT>();
    let all = words.chunks(run.input[0].len());
    assert!(rest.is_empty() && all.len() == run.input.len());
    let said: Vec<_> = all.skip(TO_LOCK as usize).map(<[_]>::to_vec).collect();
    for (cycle, expected) in run.sent.iter().enumerate() {
        for (node, (up, down, is_disabled, asked)) in expected.iter().enumerate() {
            assert!(
                !asked || Said(&said[cycle][node]).ready(),
                "node {node} is not ready in cycle {cycle}, {name}"
            );
            let Some(after) = said.get(cycle + 1) else { continue };
            let after = Said(&after[node]);
            assert_eq!(after.up(), *up, "from node {node} in cycle {cycle}, {name}");
            assert_eq!(after.down(), *down, "to node {node} in cycle {cycle}, {name}");
            assert_eq!(after.disabled(), *is_disabled, "port {node} in cycle {cycle}, {name}");
            assert!(!after.overflow(), "something is lost in cycle {cycle}, {name}");
        }
    }
    let end = said.len() as u64;
    for (node, expected) in run.deliveries.iter().enumerate() {
        let got = delivered((0..).zip(&said).map(|(cycle, nodes)| (cycle, Said(&nodes[node]))));
        let expected: Vec<_> = expected.iter().filter(|delivery| delivery.at < end).collect();
        for (got, expected) in got.iter().zip(&expected) {
            assert_eq!(got, *expected, "to node {node}, {name}");
        }
        assert_eq!(got.len(), expected.len(), "to node {node}, {name}");
    }
    said
}

/// Returns a request of random kind, size and address.
fn anything(traffic: Traffic, node: u16, bed: &mut Testbed, random: &mut Pcg64Mcg) -> Option<Request> {
    let mut below = |most: u32| random.next_u32() % most;
    let (chance, dst, bytes) =
        (below(traffic.one_in), below(traffic.focus) as u16, 1 + below(traffic.longest));
    let (is_aligned, is_write) = (below(2) == 0, below(2) == 0);
    let mut address = u64::from(below(MEMORY as u32 - bytes));
    if is_aligned {
        address &= !63;
    }
    if chance > 0 || dst == node {
        return None;
    }
    if traffic.modify > 0 && below(traffic.modify) == 0 {
        let address = MEMORY + 8 * u64::from(below(WORDS));
        let now = bed.memory[usize::from(dst)].read(address, 8);
        let now = u64::from_le_bytes(now.try_into().expect("eight bytes"));
        let some = u64::from(below(u32::MAX)) << below(33);
        let operation = match below(4) {
            0 => RmwOperation::FetchAdd { addend: some },
            1 => RmwOperation::Swap { new: some },
            2 => RmwOperation::CompareSwap { expected: now, new: some },
            _ => RmwOperation::CompareSwap { expected: now ^ 1 << below(64), new: some },
        };
        return Some(Request::Modify { dst, address, operation });
    }
    let data = || (address..address + u64::from(bytes)).map(contents).collect();
    Some(match is_write {
        true => Request::Write { dst, address, data: data() },
        false => Request::Read { dst, address, bytes: bytes as u16 },
    })
}

#[test]
fn a_rack_is_the_same_in_every_cycle() {
    let racks = std::env::var("UNRACK_RTL_RACKS").unwrap_or_else(|_| "4".into());
    for nodes in racks.split(',') {
        let Some(program) = program(&format!("rack-{nodes}")) else { return };
        compare_racks(&program, nodes.parse().expect("a number of nodes"));
    }
}

fn compare_racks(program: &str, nodes: u16) {
    let usual = Traffic {
        policy: MuxPolicy::Fair,
        order: edm::GrantPolicy::Srpt,
        one_in: 30,
        longest: 300,
        focus: u32::from(nodes),
        frame: 0,
        wrong: 0,
        modify: 6,
        timeout: 0,
        old: 0,
    };
    let runs = [
        usual,
        Traffic { one_in: 400, longest: 64, ..usual },
        Traffic { one_in: 10, longest: 20, modify: 0, ..usual },
        Traffic { one_in: 400, longest: 2_000, focus: 2, old: 5, ..usual },
        Traffic { one_in: 150, frame: 400, policy: MuxPolicy::Strict, ..usual },
        Traffic { one_in: 400, longest: 200, frame: 1_500, ..usual },
        Traffic { one_in: 20, modify: 1, ..usual },
        Traffic { one_in: 100, wrong: 4_000, timeout: 2_000, ..usual },
    ];
    // With more nodes there are fewer cycles, so that records take the same amount of memory.
    let cycles = cycles() * 4 / u64::from(nodes);
    let (mut messages, mut nulls) = (0, 0);
    for (seed, mut traffic) in runs.into_iter().enumerate() {
        // The total traffic stays the same, so that each link carries less than it can. Otherwise it would fall behind
        // by the time of control blocks, which the hardware's scheduler does not account for, until a queue is full.
        traffic.one_in = traffic.one_in * u32::from(nodes) / 4;
        let ask = |node, bed: &mut Testbed, random: &mut Pcg64Mcg| anything(traffic, node, bed, random);
        let run = software(nodes, traffic, seed as u64, cycles, ask);
        messages += run.deliveries.iter().map(Vec::len).sum::<usize>();
        nulls += run.deliveries.iter().flatten().filter(|delivery| delivery.what == What::Null).count();
        compare(program, run, &format!("{nodes} nodes, run {seed}, {traffic:?}"));
    }
    assert!(messages as u64 > cycles / 20 && nulls > 0, "{messages} messages, {nulls} NULL");
    println!("rack of {nodes}: {messages} messages in {} x {} cycles, all the same", runs.len(), cycles);
}

/// Table 1 and figure 5, from the cycles in which blocks leave the hardware's multiplexers, for 64 B without other
/// traffic.
#[test]
fn the_hardware_has_the_cycles_of_figure_5() {
    let Some(program) = program("rack-4") else { return };
    let alone = Traffic {
        policy: MuxPolicy::Fair,
        order: edm::GrantPolicy::Srpt,
        one_in: 0,
        longest: 64,
        focus: 0,
        frame: 0,
        wrong: 0,
        modify: 0,
        timeout: 0,
        old: 0,
    };
    let measure = |request: Request| {
        let ask = |node, bed: &mut Testbed, _: &mut Pcg64Mcg| {
            (bed.now() == 0 && node == 0).then(|| request.clone())
        };
        compare(&program, software(4, alone, 0, 100, ask), "alone")
    };
    let at = |said: &[Vec<[u8; OUT]>], node: usize, kind, is_up| {
        let is = |said: Said| (if is_up { said.up() } else { said.down() }).block_type() == Some(kind);
        // A register is recorded in the cycle after its change.
        said.iter().position(|nodes| is(Said(&nodes[node]))).expect("it crosses") as u64 - 1
    };
    let begins = |said: &[Vec<[u8; OUT]>], node: usize| {
        said.iter().position(|nodes| Said(&nodes[node]).begins()).expect("it comes") as u64
    };
    let pcs = 2 * steps::PCS_CYCLES;
    let matched = steps::CLASSIFY + steps::SCHEDULE + steps::MAKE_GRANT;
    let total = |cycles| {
        EdmLatencies::default().cycles(cycles) + EdmLatencies::default().pma * 8 + Time::from_ns(10) * 4
    };

    let said = measure(Request::Write { dst: 1, address: 64, data: (64..128).map(contents).collect() });
    let (notified, granted) = (at(&said, 0, layout::N, true), at(&said, 0, layout::G, false));
    let (sent, forwarded) = (at(&said, 0, layout::MS, true), at(&said, 1, layout::MS, false));
    assert_eq!(notified, steps::MAKE_NOTIFICATION);
    assert_eq!(granted - notified - pcs, matched);
    assert_eq!(sent - granted - pcs, steps::PARSE_GRANT + steps::READ_GRANT_QUEUE + steps::MAKE_DATA);
    assert_eq!(forwarded - sent - pcs, steps::CLASSIFY + steps::FORWARD);
    assert_eq!(begins(&said, 1) - forwarded - pcs, steps::RECEIVE_DATA);
    assert_eq!(total(begins(&said, 1)).as_ps(), 296_960);

    let said = measure(Request::Read { dst: 1, address: 64, bytes: 64 });
    let (asked, granted) = (at(&said, 0, layout::MST, true), at(&said, 1, layout::MST, false));
    let (sent, forwarded) = (at(&said, 1, layout::MS, true), at(&said, 0, layout::MS, false));
    assert_eq!(asked, steps::MAKE_NOTIFICATION);
    assert_eq!(granted - asked - pcs, matched);
    assert_eq!(sent - granted - pcs, steps::RECEIVE_REQUEST + steps::READ_GRANT_QUEUE + steps::MAKE_DATA);
    assert_eq!(forwarded - sent - pcs, steps::CLASSIFY + steps::FORWARD);
    assert_eq!(begins(&said, 0) - forwarded - pcs, steps::RECEIVE_DATA);
    assert_eq!(total(begins(&said, 0)).as_ps(), 299_520);
}
