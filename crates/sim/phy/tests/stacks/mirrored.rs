//! Two switches, one of which is enough (§3.3).

use super::{HOST, encoded, with_the_wire};
use proptest::prelude::*;
use unrack_phy::Block;
use unrack_phy::edm::{MuxPolicy, RmwOperation};
use unrack_phy::stack::{
    Completion, HostConfig, MemoryController, Request, RequestOutcome, SwitchConfig, Testbed,
};
use unrack_protocol::edm::{self, steps};

const NODES: u16 = 4;
/// Timeout in cycles. It is longer than the X messages of every pair take on a link that they share with frames.
const TIMEOUT: u64 = 5_000;

fn testbed(nodes: u16, policy: MuxPolicy, mega: Option<u16>) -> Testbed {
    let (cycle, counts_control) = (steps::PCS_CYCLE, true);
    let host = HostConfig { mega, timeout: Some(TIMEOUT), ..HOST };
    let policy_of_switch = edm::GrantPolicy::Srpt;
    let switch =
        SwitchConfig { ports: nodes, chunk: host.chunk, policy: policy_of_switch, cycle, counts_control };
    Testbed::mirrored(switch, host, policy, 0)
}

/// Runs for `cycles` cycles. Returns the requests that have ended, by node.
fn run(bed: &mut Testbed, cycles: u64, mut each: impl FnMut(&mut Testbed)) -> Vec<Vec<Completion>> {
    let mut done = vec![Vec::new(); bed.hosts.len()];
    for _ in 0..cycles {
        each(bed);
        bed.tick();
        bed.hosts.iter_mut().zip(&mut done).for_each(|(host, done)| done.extend(host.completions()));
    }
    done
}

/// Returns the initial byte at an address.
fn pattern(address: u64) -> u8 {
    (address.wrapping_mul(167) >> 3) as u8
}

#[test]
fn a_copy_on_both_lines_costs_no_time_and_counts_once() {
    let mut bed = testbed(2, MuxPolicy::Fair, None);
    bed.crossings = Some(Vec::new());
    bed.hosts[0].submit(0, Request::Read { dst: 1, address: 64, bytes: 64 });
    let done = run(&mut bed, 200, |_| ());
    assert_eq!(done[0].len(), 1);
    assert_eq!(with_the_wire(done[0][0].first).as_ps(), 299_520);
    assert_eq!([0, 1].map(|node| bed.hosts[node].duplicates()), [1, 1], "the answer, and the request");
    let crossings = bed.crossings.take().unwrap();
    let on = |star| crossings.iter().filter(move |crossing| crossing.star == star);
    let ways = |star| on(star).map(|crossing| (crossing.cycle, crossing.node, crossing.up, crossing.block));
    assert!(ways(0).eq(ways(1)), "without frames both are in step");

    let now = bed.now();
    bed.hosts[0].submit(now, Request::Write { dst: 1, address: 64, data: vec![7; 600] });
    let done = run(&mut bed, 400, |_| ());
    assert_eq!(done[0][0].outcome, RequestOutcome::Sent);
    let writes: Vec<_> = bed.memory[1].writes.iter().map(|write| (write.0, write.1)).collect();
    assert_eq!(writes, [(64, 256), (320, 256), (576, 88)]);
    assert_eq!(with_the_wire(bed.memory[1].writes[0].2 - now).as_ps(), 296_960);
    assert_eq!([0, 1].map(|node| bed.hosts[node].duplicates()), [1, 4]);
    assert!(bed.is_idle() && bed.hosts.iter().all(|host| host.strays() == 0));
}

/// Frames delay one copy, while the other one arrives in time.
#[test]
fn the_first_copy_counts() {
    for busy in 0..2 {
        let mut bed = testbed(2, MuxPolicy::Fair, None);
        bed.stars[busy].send_up(0, encoded(&[vec![3; 9_000]]));
        bed.stars[busy].send_down(1, encoded(&[vec![3; 9_000]]));
        run(&mut bed, 50, |_| ());
        bed.hosts[0].submit(50, Request::Read { dst: 1, address: 64, bytes: 1_000 });
        let done = run(&mut bed, 1_000, |_| ());
        let mut alone = testbed(2, MuxPolicy::Fair, None);
        alone.hosts[0].submit(0, Request::Read { dst: 1, address: 64, bytes: 1_000 });
        let unloaded = run(&mut alone, 1_000, |_| ());
        assert_eq!(done[0][0].at - 50, unloaded[0][0].at);
    }
}

/// After one timeout, requests to a node that one network cannot reach use the other network.
#[test]
fn a_lost_way_is_found_out_once() {
    let mut bed = testbed(3, MuxPolicy::Fair, None);
    bed.stars[0].cut(1);
    let read = |dst| Request::Read { dst, address: 64, bytes: 8 };
    let mut done = Vec::new();
    for _ in 0..2 {
        let now = bed.now();
        (0..9).for_each(|_| _ = bed.hosts[0].submit(now, read(1)));
        bed.hosts[0].submit(now, read(2));
        done.extend(run(&mut bed, 2 * TIMEOUT, |_| ()).swap_remove(0).into_iter().map(|end| end.at - now));
    }
    assert!(bed.is_idle());
    assert_eq!(done.len(), 20);
    assert!(done[..10].iter().any(|cycles| *cycles > TIMEOUT), "six wait for a place");
    assert!(done[10..].iter().all(|cycles| *cycles < 500), "nothing waits for the lost way");
    assert_eq!([1, 2].map(|dst| bed.hosts[0].is_mirrored_to(dst)), [false, true]);
}

/// A failure, and its place.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Switch,
    Link(u16),
    /// One wrong bit, on the way to the switch or on the way from it.
    Bit {
        node: u16,
        up: bool,
        bit: u8,
    },
}

fn failures() -> impl Strategy<Value = Failure> {
    prop_oneof![
        2 => Just(Failure::Switch),
        1 => (0..NODES).prop_map(Failure::Link),
        1 => (0..NODES, any::<bool>(), 0..66_u8)
            .prop_map(|(node, up, bit)| Failure::Bit { node, up, bit }),
    ]
}

fn fail(bed: &mut Testbed, star: usize, failure: Failure) {
    let star = &mut bed.stars[star];
    match failure {
        Failure::Switch => star.kill(),
        Failure::Link(node) => star.cut(node),
        Failure::Bit { node, up, bit } => {
            let flip = |block: Block| match bit {
                0 | 1 => Block { header: block.header ^ 1 << bit, ..block },
                _ => Block { payload: block.payload ^ 1 << (bit - 2), ..block },
            };
            if up { star.replace_up(node, flip) } else { star.replace_down(node, flip) }
        }
    }
}

#[derive(Debug, Clone)]
struct Step {
    after: u8,
    src: u16,
    offset: u16,
    bytes: u16,
    kind: u8,
}

fn step() -> impl Strategy<Value = Step> {
    (0..40_u8, 0..NODES, 1..NODES, 1..900_u16, 0..3_u8).prop_map(|(after, src, offset, bytes, kind)| Step {
        after,
        src,
        offset,
        bytes,
        kind,
    })
}

const WORD: u64 = 1 << 40;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A part of one network fails in any cycle, while frames delay both networks. Each request ends once with the
    /// right outcome, each byte is written once and in the order of its pair, and each read-modify-write is done once.
    #[test]
    fn whatever_fails_nothing_is_lost(
        all in proptest::collection::vec(step(), 1..50), star in 0..2_usize, failure in failures(), at in 0..1_500_u64,
        frames in [0..4_usize, 0..4], strict in any::<bool>(), mega in any::<bool>(),
    ) {
        let policy = if strict { MuxPolicy::Strict } else { MuxPolicy::Fair };
        let mut bed = testbed(NODES, policy, mega.then_some(1_000));
        for memory in &mut bed.memory {
            let data: Vec<u8> = (0..2_048).map(pattern).collect();
            memory.write(0, &data, 0, 0);
            memory.writes.clear();
        }
        for (star, frames) in bed.stars.iter_mut().zip(frames) {
            for node in 0..NODES {
                star.send_up(node, encoded(&vec![vec![3; 700]; frames]));
                star.send_down(node, encoded(&vec![vec![4; 700]; frames]));
            }
        }
        // Requests of each source in order, and expected writes of each pair.
        let mut asked = vec![Vec::new(); usize::from(NODES)];
        let mut pairs = vec![Vec::new(); usize::from(NODES * NODES)];
        let mut rest = all.iter();
        let (mut next, mut due) = (rest.next(), 0);
        let mut left = 20 * TIMEOUT;
        let mut done = vec![Vec::new(); usize::from(NODES)];
        while left > 0 && !(next.is_none() && bed.is_idle() && bed.now() > at) {
            left -= 1;
            while let Some(one) = next.filter(|one| due + u64::from(one.after) <= bed.now()) {
                (due, next) = (bed.now(), rest.next());
                let (src, dst) = (usize::from(one.src), (one.src + one.offset) % NODES);
                // Every write has a separate place in memory.
                let address = (u64::from(one.src) << 20) + 4_096 + ((asked[src].len() as u64) << 10);
                let request = match one.kind {
                    0 => Request::Read { dst, address: u64::from(one.bytes), bytes: one.bytes },
                    1 => {
                        let data: Vec<u8> = (address..address + u64::from(one.bytes)).map(pattern).collect();
                        pairs[src * usize::from(NODES) + usize::from(dst)].push((address, data.len() as u64));
                        Request::Write { dst, address, data }
                    }
                    _ => Request::Modify { dst, address: WORD, operation: RmwOperation::FetchAdd { addend: 1 } },
                };
                let now = bed.now();
                bed.hosts[src].submit(now, request.clone());
                asked[src].push(request);
            }
            let ended = run(&mut bed, 1, |_| ());
            done.iter_mut().zip(ended).for_each(|(done, ended)| done.extend(ended));
            if bed.now() == at {
                fail(&mut bed, star, failure);
            }
        }
        prop_assert!(left > 0, "not over");
        // The other copies are still in transit.
        run(&mut bed, 2_000, |_| ());
        let mut words = vec![Vec::new(); usize::from(NODES)];
        for (asked, done) in asked.iter().zip(&mut done) {
            prop_assert_eq!(asked.len(), done.len());
            done.sort_by_key(|end| end.ticket);
            for (ticket, (request, end)) in asked.iter().zip(done).enumerate() {
                prop_assert_eq!(end.ticket as usize, ticket);
                match (request, &end.outcome) {
                    (Request::Read { address, bytes, .. }, RequestOutcome::Answer(data)) => {
                        let right: Vec<u8> = (*address..address + u64::from(*bytes)).map(pattern).collect();
                        prop_assert_eq!(data, &right);
                    }
                    (Request::Modify { dst, .. }, RequestOutcome::Answer(data)) => {
                        words[usize::from(*dst)].push(u64::from_le_bytes(data[..].try_into().unwrap()));
                    }
                    (Request::Write { .. }, RequestOutcome::Sent) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
        for (node, memory) in bed.memory.iter_mut().enumerate() {
            let words = &mut words[node];
            words.sort_unstable();
            prop_assert!(words.iter().copied().eq(0..words.len() as u64), "each sum was answered once");
            prop_assert_eq!(memory.read(WORD, 8), (words.len() as u64).to_le_bytes());
            for src in 0..usize::from(NODES) {
                let is_of = |write: &&(u64, usize, u64, u64)| write.0 < WORD && write.0 >> 20 == src as u64;
                // Adjacent parts are merged.
                let mut written: Vec<(u64, u64)> = Vec::new();
                for (address, bytes, ..) in memory.writes.iter().filter(is_of) {
                    match written.last_mut() {
                        Some((begin, length)) if *begin + *length == *address && *bytes > 0
                            && address & 1_023 != 0 => *length += *bytes as u64,
                        _ => written.push((*address, *bytes as u64)),
                    }
                }
                prop_assert_eq!(&written, &pairs[src * usize::from(NODES) + node]);
                for (address, bytes) in written {
                    let right: Vec<u8> = (address..address + bytes).map(pattern).collect();
                    prop_assert_eq!(memory.read(address, bytes as usize), right);
                }
            }
        }
    }
}
