//! Comparison of the scheduler (`rtl/pim_scheduler.sv`): every grant and its cycle are compared.

use super::cycles;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use unrack_protocol::edm::{Demand, GrantPolicy, Scheduler, SchedulerConfig};
use unrack_units::Time;

/// Constants of `rtl/pim_scheduler.sv`: X, the bytes of a chunk, and the blocks of its framing.
const ACTIVE: u32 = 3;
const CHUNK: u32 = 256;
const FRAMING: u64 = 2;
const CYCLE: Time = Time::from_ps(2_560);

/// A grant: cycle of the hardware's third phase, source, destination, bytes, hold, and the flags last, first, tag.
type Granted = (u64, u16, u16, u16, u8, [bool; 3]);

/// A run: random demands, as one record of eight bytes per cycle, and the software's grants.
struct Run {
    demands: Vec<u8>,
    grants: Vec<Granted>,
}

/// Makes a run. A demand arrives in one of `one_in` cycles, and destinations are the first `focus` ports.
fn run(
    ports: u32,
    policy: GrantPolicy,
    seed: u64,
    cycles: u64,
    one_in: u32,
    focus: u32,
    longest: u32,
) -> Run {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut scheduler = Scheduler::new(SchedulerConfig {
        ports,
        chunk: CHUNK,
        policy,
        pairs_in_order: true,
        iteration: CYCLE * 3,
        block: CYCLE,
        framing: CYCLE * FRAMING,
        control: Time::ZERO,
    });
    let mut active: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut ending: Vec<(u64, (u32, u32))> = Vec::new();
    let (mut demands, mut grants, mut settles) = (Vec::new(), Vec::new(), None);
    let mut out = Vec::new();
    for cycle in 0..cycles {
        scheduler.run(CYCLE * cycle, &mut out);
        for grant in out.drain(..) {
            let at = grant.at.as_ps() / CYCLE.as_ps();
            let hold = (at - cycle - 3) as u8;
            settles = Some(cycle + 2);
            let bytes = grant.bytes as u16;
            let flags = [grant.last, grant.first, grant.token == 1];
            grants.push((cycle + 2, grant.src as u16, grant.dst as u16, bytes, hold, flags));
            if grant.last {
                ending.push((cycle + 3, (grant.src, grant.dst)));
            }
        }
        ending.retain(|(at, pair)| {
            let is_over = *at <= cycle;
            if is_over {
                *active.get_mut(pair).expect("it was granted") -= 1;
            }
            !is_over
        });
        let mut below = |most: u32| random.next_u32() % most;
        let (chance, src, dst, size) = (below(one_in), below(ports), below(focus), 1 + below(longest));
        let count = active.entry((src, dst)).or_default();
        let may = chance == 0 && src != dst && *count < ACTIVE && settles != Some(cycle);
        let token = random.next_u32() & 1;
        demands.extend([u8::from(may), token as u8]);
        for field in [src, dst, size] {
            demands.extend((field as u16).to_le_bytes());
        }
        if may {
            *count += 1;
            // In the hardware, the demand enters the lists one cycle later.
            let demand = Demand { src, dst, bytes: size.into(), token, request: Time::ZERO };
            scheduler.handle_demand(CYCLE * (cycle + 1), demand);
        }
    }
    grants.retain(|grant| grant.0 < cycles);
    Run { demands, grants }
}

fn hardware(program: &str, demands: Vec<u8>) -> Vec<Granted> {
    let output = super::run(program, demands);
    let half = |record: &[u8], at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
    let parse = |record: &[u8; 16]| {
        let (cycle, rest) = record.split_first_chunk::<8>().expect("16 bytes");
        let flags = [0, 1, 2].map(|at| rest[6] >> at & 1 == 1);
        (u64::from_le_bytes(*cycle), half(rest, 0), half(rest, 2), half(rest, 4), rest[7], flags)
    };
    output.as_chunks::<16>().0.iter().map(parse).collect()
}

#[test]
fn hardware_and_software_grant_the_same_in_the_same_cycle() {
    let cycles = cycles();
    let wanted = std::env::var("UNRACK_RTL_SCHEDULERS").unwrap_or_else(|_| "srpt-8,fcfs-8,srpt-16".into());
    for name in wanted.split(',') {
        let (policy, ports) = name.split_once('-').expect("a policy and a number of ports");
        let policy = if policy == "srpt" { GrantPolicy::Srpt } else { GrantPolicy::Fcfs };
        let ports = ports.parse().expect("a number of ports");
        let Some(program) = super::program(name) else { return };
        let mut granted = 0;
        for (seed, (one_in, focus, longest)) in
            [(1, ports, 320), (1, 2, 800), (3, ports, 64), (10, ports, 2_400), (60, ports, 512), (2, 1, 256)]
                .into_iter()
                .enumerate()
        {
            let Run { demands, grants } = run(ports, policy, seed as u64, cycles, one_in, focus, longest);
            let mut expected = grants;
            let mut got = hardware(&program, demands);
            expected.sort();
            got.sort();
            let differs = expected.iter().zip(&got).position(|(a, b)| a != b);
            if let Some(at) = differs {
                panic!("{name}, traffic {seed}: software {:?}, hardware {:?}", expected[at], got[at]);
            }
            assert_eq!(expected.len(), got.len(), "{name}, traffic {seed}");
            granted += got.len();
        }
        assert!(granted as u64 > cycles / 10, "{granted} grants");
        println!("{name}: {granted} grants in 6 x {cycles} cycles, all the same");
    }
}
