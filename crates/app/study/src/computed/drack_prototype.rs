//! DRack table 1 and §7.1: the prototype, as the studies simulate it. Sizes and numbers are those of the scenario of `drack/fig9`.
//! Latencies are measured on its hosts, by a program that follows pointers (as lmbench does, §7.1): each load waits for the one before.

use crate::computed::Computed;
use crate::file::{Study, StudyScale};
use crate::grid::{ReadyPoint, points};
use std::collections::BTreeMap;
use std::sync::Arc;
use unrack_hosts::{HostOutput, HostPlan, Hosts};
use unrack_rack::BufferSize;
use unrack_sim::HostModel;
use unrack_units::Time;
use unrack_workload::{Computing, TaskLoads};

const STUDY: &str = "drack/fig9";
/// Number of loads, and the bytes among which they are.
const LOADS: u64 = 4_096;
const AMONG: u64 = 256 << 20;

/// Returns the numbers of table 1, of figure 8d, and of the latency ratio of §7.1.
pub(super) fn values() -> Computed {
    values_of(true)
}

/// Returns the same values if each host loads from its own memory only.
pub(super) fn own_memory() -> Computed {
    values_of(false)
}

fn values_of(memory_pool: bool) -> Computed {
    let (own, pool) = (prototype("tcp"), prototype("mptcp"));
    let local = load(&own, false).as_ns_f64() / 1e3;
    let mixed = load(&pool, memory_pool).as_ns_f64() / 1e3;
    // Of the loads from the pool of a rack of two hosts, half are local.
    let remote = 2.0 * mixed - local;
    let topology = &pool.setup.network.topology;
    let host = pool.scenario.host.as_ref().expect("hosts of the prototype take time");
    let BufferSize::Limited(buffer) = own.scenario.network.switch.buffer else {
        return Computed::new();
    };
    let values = [
        ("racks", f64::from(topology.racks().racks)),
        ("hosts_per_rack", f64::from(topology.racks().hosts)),
        ("nics_of_a_pool", f64::from(topology.pooled())),
        ("local_us", local),
        ("remote_us", remote),
        ("ratio", remote / local),
        ("rtt_own_us", round_trip_us(&own)),
        ("rtt_pool_us", round_trip_us(&pool)),
        ("headroom_kib", buffer.get() as f64 / 1024.0),
        ("nic_headroom_kib", host.nic.headroom.get() as f64 / 1024.0),
        ("cache_gib", gib(host.cache.size.get())),
        ("pooled_gib", gib(host.memory.size.get())),
        ("interleave_b", host.memory.interleave.get() as f64),
        ("cores", f64::from(host.cpu.cores)),
        ("mtu_b", pool.scenario.network.mtu.get() as f64),
    ];
    values.map(|(name, value)| (name.to_string(), value)).into()
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Returns the first point of the study that this fabric runs, which is its rack with the smallest NICs.
fn prototype(fabric: &str) -> ReadyPoint {
    let study = crate::all().ok().and_then(|all| all.into_iter().find(|study| study.name == STUDY));
    let study: Study = study.expect("the study is built in");
    // Points of a quick run have little work to draw.
    let of_fabric = |labels: &BTreeMap<String, String>| labels.get("fabric").is_some_and(|of| of == fabric);
    let mut points = points(&study, StudyScale::Quick).into_iter();
    let point = points.find(|point| of_fabric(&point.labels)).expect("both fabrics have points");
    point.ready(&study).expect("points of studies are valid")
}

/// Returns the time of a load by a core that follows pointers, without a cache. The rack pools its memories, or it does not.
fn load(prototype: &ReadyPoint, memory_pool: bool) -> Time {
    let topology = &prototype.setup.network.topology;
    let inside = topology.hosts().expect("hosts of the prototype take time").clone();
    let mut spec = (*inside.spec).clone();
    (spec.memory_pool, spec.dram_cache, spec.memory.outstanding_loads) = (memory_pool, false, 1);
    let mtu = prototype.scenario.network.mtu.get();
    let plan = HostPlan::new(&HostModel { spec: Arc::new(spec), ..inside }, topology, mtu);
    let mut hosts = Hosts::new(plan);
    let loads = TaskLoads { scattered: LOADS, among: AMONG, ..TaskLoads::default() };
    let mut now = Time::ZERO;
    hosts.compute(now, Computing { actor: 0, node: 0, time: Time::ZERO, loads });
    while let Some(output) = hosts.poll() {
        if let HostOutput::At(at, event) = output {
            now = at;
            hosts.handle(at, event);
        }
    }
    Time::from_ps(now.as_ps() / LOADS)
}

/// Returns the propagation between the first hosts of two racks, there and back.
fn round_trip_us(prototype: &ReadyPoint) -> f64 {
    let network = &prototype.setup.network;
    let other = network.topology.racks().hosts;
    let there: Time = network.links(0, other).map(|link| link.propagation).sum();
    (there * 2).as_ns_f64() / 1e3
}
