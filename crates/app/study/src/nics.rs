//! Use of NICs by what their racks send: over the whole run, and over time for the rack that sends most.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use unrack_sim::observe::LinkSamples;
use unrack_sim::topology::Topology;
use unrack_sim::{LinkId, Run};
use unrack_units::Time;
use unrack_workload::Message;

/// Length of the intervals in which links are sampled.
pub(crate) const EVERY: Time = Time::from_us(1_000);
/// Maximum number of steps of time in the results. Each has as many intervals as are needed for that.
const STEPS: u64 = 64;

/// Returns the use of NICs in a run: the mean over all NICs, the busiest NIC over that mean, the share of bytes `between_racks`, and
/// `rack`: the NICs of the rack that sends most, in steps of time, with the mean over the steps in which it sends. A use is the share
/// of time in which a NIC sends. Returns `None` if nothing was sent.
pub(crate) fn nic_use(links: &LinkSamples, topology: &Topology, run: &Run) -> Option<Value> {
    let ended = run.ended;
    let bytes = |counts: &dyn Fn(&Message) -> bool| -> u64 {
        run.messages.iter().filter(|message| counts(message)).map(|message| message.bytes).sum()
    };
    let leaves = |message: &Message| topology.switch_of(message.src) != topology.switch_of(message.dst);
    let between_racks = bytes(&leaves) as f64 / bytes(&|_| true).max(1) as f64;
    let sent: Vec<(u32, Time, Time)> = links
        .samples()
        .filter_map(|sample| match sample.link {
            LinkId::Host(nic) => Some((nic, sample.from, sample.busy)),
            LinkId::Port(_) => None,
        })
        .collect();
    let share = |busy: Time, of: Time| busy.as_ps() as f64 / of.as_ps().max(1) as f64;
    let mut by_nic = vec![Time::ZERO; topology.nodes() as usize];
    sent.iter().for_each(|(nic, _, busy)| by_nic[*nic as usize] += *busy);
    let mut by_rack: BTreeMap<u32, Time> = BTreeMap::new();
    for (nic, busy) in (0..).zip(&by_nic) {
        *by_rack.entry(topology.switch_of(nic)).or_default() += *busy;
    }
    let rack = *by_rack.iter().max_by_key(|(rack, busy)| (**busy, std::cmp::Reverse(**rack)))?.0;
    let nics = (0..topology.nodes()).filter(|nic| topology.switch_of(*nic) == rack).count() as u64;
    let intervals = ended.as_ps().div_ceil(EVERY.as_ps()).max(1);
    let together = intervals.div_ceil(STEPS);
    let mut steps = vec![Time::ZERO; intervals.div_ceil(together) as usize];
    for (_, from, busy) in sent.iter().filter(|(nic, ..)| topology.switch_of(*nic) == rack) {
        let step = (from.as_ps() / EVERY.as_ps() / together) as usize;
        // The last bits of acknowledgements can leave after the last message has completed.
        if let Some(sum) = steps.get_mut(step) {
            *sum += *busy;
        }
    }
    let step = EVERY * together;
    let over_time: Vec<f64> = steps.iter().map(|busy| share(*busy, step * nics)).collect();
    let active: Vec<f64> = over_time.iter().copied().filter(|share| *share > 0.0).collect();
    let all: Time = by_nic.iter().copied().sum();
    let mean = share(all, ended * u64::from(topology.nodes()));
    let busiest = by_nic.iter().copied().max().map_or(0.0, |busy| share(busy, ended));
    (all > Time::ZERO).then(|| {
        json!({
            "mean": mean,
            "between_racks": between_racks,
            "busiest_over_mean": busiest / mean,
            "rack": {
                "step_ns": step.as_ns_f64(),
                "over_time": over_time,
                "peak": over_time.iter().copied().fold(0.0, f64::max),
                "mean_while_sending": active.iter().sum::<f64>() / active.len().max(1) as f64,
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::file::Study;
    use crate::grid::points;
    use crate::run::run;
    use crate::{StudyResults, StudyScale};
    use std::num::NonZeroUsize;
    use unrack_record::{Build, KeptPoints};
    use unrack_testing::TestFolder;

    /// A host sends 10 MB to a host of the other rack, at 1 Gb/s: 80 ms. Without a pool, one of four NICs is busy all the time.
    /// With a pool, two are.
    const STUDY: &str = r#"
title = "NICs"
source = "a test"
about = ""
fabrics = ["tcp", "mptcp"]
scenario = """
[network]
topology = { kind = "torack", racks = 2, hosts_per_rack = 2 }
link = { rate = "1Gbps", propagation = "1us" }
core_link = { rate = "1Gbps", propagation = "1us" }
switch = { buffer = "256KiB" }
[fabric]
protocol = "tcp"
[workload]
kind = "jobs"
jobs = [{ on = [0, 2], name = "job", collective = { operation = "all-gather", size = "20MB" } }]
"""
[[grid]]
name = "one sends"
nics = true
[grid.for_fabric]
mptcp = ['network.topology={ kind = "drack", racks = 2, hosts_per_rack = 2 }']
"#;

    fn results() -> StudyResults {
        let study = Study::parse("test", STUDY).unwrap();
        assert!(points(&study, StudyScale::Full).iter().all(|point| point.asked.nics));
        let desk = TestFolder::new("nics");
        let build =
            Build { version: String::new(), commit: None, tree_changed: None, sources: String::new() };
        let kept = KeptPoints::open(&desk, &build).unwrap();
        run(&[study], StudyScale::Full, &kept, NonZeroUsize::MIN, &()).unwrap().remove(0)
    }

    #[test]
    fn a_pool_uses_all_nics_of_a_rack() {
        let [own, pool] = &results().points[..] else { panic!("two points") };
        let value = |point: &crate::Measured, path: &str| point.value(&format!("nics.{path}")).unwrap();
        assert!((0.45..0.51).contains(&value(own, "rack.mean_while_sending")), "{:?}", own.summary["nics"]);
        assert!(value(pool, "rack.mean_while_sending") > 0.8, "{:?}", pool.summary["nics"]);
        assert_eq!(value(own, "between_racks"), 1.0);
        assert!(value(own, "busiest_over_mean") > 1.9 && value(pool, "busiest_over_mean") < 1.3);
        assert!(value(pool, "rack.peak") <= 1.0 + 1e-9);
        let steps = own.summary["nics"]["rack"]["over_time"].as_array().unwrap().len();
        assert!((30..=64).contains(&steps), "{steps}");
    }
}
