//! EDM §3.1.3 and §3.1.4: time and memory of the scheduler of a 512-port switch.

use crate::computed::Computed;
use unrack_protocol::edm::scheduler::ITERATION_CYCLES;
use unrack_protocol::edm::{Demand, GrantPolicy, Scheduler, SchedulerConfig};
use unrack_sim::fabric::edm::{BURST_BYTES, CONTROL_BITS, EdmConfig};
use unrack_units::{Rate, Time};

const PORTS: u32 = 512;
const RATE: Rate = Rate::from_gbps(100);
/// Messages that wait for each destination while matchings are counted; enough that no port is ever idle.
const WAITING: u32 = 24;
const MATCHINGS: u32 = 20;

/// Returns times, sizes and shares of the scheduler, by name.
pub(super) fn values() -> Computed {
    values_of(&EdmConfig::default())
}

/// Returns the same values for another configuration.
pub(super) fn values_of(config: &EdmConfig) -> Computed {
    let matching_ns = matching_ns(config);
    let line_rate_bytes = matching_ns * RATE.as_bps() as f64 / 8e9;
    let bursts = (line_rate_bytes / BURST_BYTES as f64).ceil();
    let control = CONTROL_BITS as f64 / (BURST_BYTES * 8) as f64;
    // §4.1: K N^2, for a notification of K bits for each pair of ports.
    let sram_mb = f64::from(PORTS) * f64::from(PORTS) * CONTROL_BITS as f64 / 8.0 / 1e6;
    let values = [
        ("matching_ns", matching_ns),
        ("measured_matching_ns", measured_matching_ns(config)),
        ("chunk_bytes", bursts * BURST_BYTES as f64),
        ("control_share", control),
        ("default_chunk", config.chunk.get() as f64),
        ("max_active", f64::from(config.max_active)),
        ("sram_mb", sram_mb),
        // §3.1.2: the queue of each port holds up to X notifications from every other port.
        ("sram_x_mb", sram_mb * f64::from(config.max_active)),
    ];
    values.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// Returns the time of a matching by the formula of §3.1.3: 3 log2(N) / R.
fn matching_ns(config: &EdmConfig) -> f64 {
    ITERATION_CYCLES as f64 * f64::from(PORTS).log2() / config.scheduler_ghz
}

/// Returns the mean time in which the scheduler that simulations use forms a maximal matching of messages between random
/// ports.
fn measured_matching_ns(config: &EdmConfig) -> f64 {
    let iterations: u32 = (0..MATCHINGS).map(|seed| iterations(config, u64::from(seed))).sum();
    f64::from(iterations) / f64::from(MATCHINGS) * config.iteration().as_ns_f64()
}

/// Returns the number of iterations until the matching is maximal, not counting those that match no pair.
fn iterations(config: &EdmConfig, seed: u64) -> u32 {
    let mut scheduler = Scheduler::new(SchedulerConfig {
        ports: PORTS,
        // Chunks are so long that no port becomes free again before the matching is maximal.
        chunk: u32::from(u16::MAX),
        policy: GrantPolicy::Fcfs,
        iteration: config.iteration(),
        block: RATE.transmit_bits(66),
        control: Time::ZERO,
        framing: Time::ZERO,
        pairs_in_order: config.pairs_in_order,
    });
    let mut random = seed;
    for n in 0..PORTS * WAITING {
        let dst = n % PORTS;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let src = (dst + 1 + (random >> 33) as u32 % (PORTS - 1)) % PORTS;
        let bytes = u64::from(u16::MAX);
        scheduler.handle_demand(Time::ZERO, Demand { src, dst, bytes, token: n, request: Time::ZERO });
    }
    let (mut count, mut grants, mut matched) = (0, Vec::new(), 0);
    while let Some(at) = scheduler.poll_at() {
        grants.clear();
        scheduler.run(at, &mut grants);
        if grants.is_empty() || matched + grants.len() > PORTS as usize {
            break;
        }
        (count, matched) = (count + 1, matched + grants.len());
    }
    count
}
