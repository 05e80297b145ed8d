//! Estimates how much other work on the machine disturbed a run, from the machine's counters before and after it, with limits beyond which
//! the run's time is not used.
//!
//! This module only computes. [`MachineCounters::now`], in `readings`, reads the counters from the machine.

use std::collections::BTreeMap;
use unrack_record::{OtherWork, Warning};

/// Counters of the machine at one moment. Times are in seconds since the machine started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachineCounters {
    pub at_s: f64,
    /// Number of cores that this process, and therefore its programs, may use.
    pub cores: u32,
    /// Time that those cores were busy, in total.
    pub busy_s: f64,
    /// Time that the hypervisor gave those cores to other virtual machines while they had work.
    pub steal_s: f64,
    /// CPU time of this process and of all children that it has waited for.
    pub own_s: f64,
    /// CPU time of each kernel thread, by thread number. Kernel threads are counted separately because they work for the program too.
    pub kernel_s: BTreeMap<u32, f64>,
    /// Time in which at least one task waited for a core; `None` if the kernel does not count it.
    pub waiting_s: Option<f64>,
    /// Number of tasks that run or wait to run, without the task that reads this number.
    pub queue: u32,
}

/// Load of the machine during a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineLoad {
    pub wall_s: f64,
    pub cores: u32,
    pub own_s: f64,
    /// CPU time of all other processes.
    pub others_s: f64,
    pub steal_s: f64,
    pub waiting_s: Option<f64>,
    /// Number of other tasks that ran or waited to run: the smaller of the values before and after.
    pub queue: u32,
}

/// Fraction of a core, or of the program's own time, that other work may take. It lengthens a run by at most this fraction. Native runs
/// scatter as much even on an otherwise idle virtual machine (128 and 136 ms, 150 and 183 ms).
const TOLERATED: f64 = 0.1;
/// Error of the counted times. The kernel counts busy and stolen time in ticks of 10 ms, and each reading may be off by one tick, so with
/// the program's own time, three ticks may be wrong.
const TICKS_S: f64 = 0.03;
/// Fraction of the hardware threads up to which each busy thread can have a core for itself. A core with two hardware threads serves one of
/// them alone only while the other is idle.
const ROOMY: f64 = 0.5;
/// Largest tolerated fraction of a run's time in which a task waited for a core that other work used. A smaller fraction lengthens a run by
/// less than native runs scatter, because not every wait is the program's.
const WAITING: f64 = 0.2;

/// Largest fraction of a core that a busy hardware thread takes from the sibling thread on the same core.
const BESIDE: f64 = 0.5;
/// Largest fraction of a run's time that is attributed to other work. Beyond it, the run permits no conclusion.
const MOST_LOST: f64 = 0.9;

impl MachineLoad {
    /// Computes the load between two readings of the counters.
    pub fn between(before: &MachineCounters, after: &MachineCounters) -> MachineLoad {
        let of_kernel = after.kernel_s.iter().filter_map(|(id, s)| Some(s - before.kernel_s.get(id)?));
        let own_s = after.own_s - before.own_s;
        let others_s = after.busy_s - before.busy_s - own_s - of_kernel.sum::<f64>();
        MachineLoad {
            wall_s: after.at_s - before.at_s,
            cores: after.cores,
            own_s,
            others_s: others_s.max(0.0),
            steal_s: (after.steal_s - before.steal_s).max(0.0),
            waiting_s: after.waiting_s.zip(before.waiting_s).map(|(after, before)| after - before),
            queue: before.queue.min(after.queue),
        }
    }

    /// Returns the reason why a run under this load must not be used, if there is one.
    pub fn disturbance(&self) -> Option<Warning> {
        self.stolen().or_else(|| self.shared()).or_else(|| self.queued()).or_else(|| self.waited())
    }

    /// Returns the largest fraction of the run's time that other work may have added. It is the maximum of four estimates: waits of tasks
    /// for a core that other work used; half of the time in which other work may have run on sibling hardware threads of the program's; the
    /// turns of other tasks in the run queue; and the time that the hypervisor took.
    pub fn lost(&self) -> f64 {
        let wall_s = self.wall_s.max(f64::MIN_POSITIVE);
        let by_others = (self.others_s + self.steal_s) / wall_s;
        let waited =
            self.waiting_s.map_or(by_others / f64::from(self.cores.max(1)), |s| (s / wall_s).min(by_others));
        let beside = BESIDE * by_others.min(1.0);
        let queued = f64::from(self.queue) / f64::from(self.queue + self.cores.max(1));
        let queued = if self.queue >= self.cores { queued } else { 0.0 };
        [waited, beside, queued, self.steal_s / wall_s].into_iter().fold(0.0, f64::max).min(MOST_LOST)
    }

    /// Returns the load in the form in which it is recorded.
    pub fn other_work(&self) -> OtherWork {
        let part = |s: f64| if self.wall_s > 0.0 { s / self.wall_s } else { 0.0 };
        OtherWork {
            others_cores: part(self.others_s),
            steal_cores: part(self.steal_s),
            waiting: self.waiting_s.map(part),
            queue: self.queue,
        }
    }

    fn stolen(&self) -> Option<Warning> {
        let is_much = self.steal_s > TOLERATED * self.own_s.min(self.wall_s) + TICKS_S;
        let text = format!("the hypervisor took {}", self.of_cores(self.steal_s));
        is_much.then(|| Warning::new("steal", text))
    }

    fn shared(&self) -> Option<Warning> {
        let is_much = self.others_s > TOLERATED * self.wall_s + TICKS_S;
        let is_roomy = self.own_s + self.others_s <= ROOMY * f64::from(self.cores) * self.wall_s;
        let text = format!("other work took {}", self.of_cores(self.others_s));
        (is_much && !is_roomy).then(|| Warning::new("other-work", text))
    }

    fn queued(&self) -> Option<Warning> {
        let text = format!("{} other tasks wanted to run before and after it", self.queue);
        (self.queue > 0 && self.queue >= self.cores).then(|| Warning::new("run-queue", text))
    }

    /// A task waits only while another task has the core. Therefore the core time of other processes and of the hypervisor bounds the waits
    /// that they caused. The remaining waits come from the program's own threads and its pager, which wake each other up on one core.
    fn waited(&self) -> Option<Warning> {
        let by_others_s = self.waiting_s?.min(self.others_s + self.steal_s);
        let part = by_others_s / self.wall_s.max(f64::MIN_POSITIVE);
        let text = format!("tasks waited for a core {:.0} % of the time while other work ran", part * 100.0);
        (part > WAITING).then(|| Warning::new("cpu-pressure", text))
    }

    fn of_cores(&self, s: f64) -> String {
        format!("{:.2} of {} cores", s / self.wall_s.max(f64::MIN_POSITIVE), self.cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(cores: u32, wall_s: f64, own_s: f64, others_s: f64, waiting_s: f64, queue: u32) -> MachineLoad {
        MachineLoad { wall_s, cores, own_s, others_s, steal_s: 0.0, waiting_s: Some(waiting_s), queue }
    }

    fn key(load: MachineLoad) -> Option<String> {
        load.disturbance().map(|why| why.key)
    }

    /// Measured loads of the NumPy example on a virtual machine with two cores.
    #[test]
    fn runs_beside_recorded_work_are_disturbed() {
        let native_beside_one_thread = load(2, 0.178, 0.177, 0.173, 0.057, 1);
        let native_beside_a_compiler = load(2, 0.238, 0.186, 0.284, 0.171, 2);
        let remote_beside_one_thread = load(2, 4.770, 4.727, 4.773, 0.515, 1);
        for disturbed in [native_beside_one_thread, native_beside_a_compiler, remote_beside_one_thread] {
            assert_eq!(key(disturbed).as_deref(), Some("other-work"), "{disturbed:?}");
        }
        // The same runs without other work.
        for disturbed in [native_beside_one_thread, native_beside_a_compiler, remote_beside_one_thread] {
            let alone = MachineLoad {
                others_s: 0.01,
                waiting_s: Some(0.1 * disturbed.wall_s),
                queue: 0,
                ..disturbed
            };
            assert_eq!(key(alone), None, "{alone:?}");
        }
    }

    #[test]
    fn each_sign_is_enough() {
        let alone = load(2, 1.0, 1.0, 0.0, 0.05, 0);
        assert_eq!(key(alone), None);
        assert_eq!(key(MachineLoad { steal_s: 0.2, ..alone }).as_deref(), Some("steal"));
        assert_eq!(key(MachineLoad { others_s: 0.2, ..alone }).as_deref(), Some("other-work"));
        assert_eq!(key(MachineLoad { queue: 2, ..alone }).as_deref(), Some("run-queue"));
        // Other work that had cores for itself, but for whose cores tasks waited nevertheless.
        let roomy = load(64, 1.0, 1.0, 0.5, 0.5, 0);
        assert_eq!(key(roomy).as_deref(), Some("cpu-pressure"));
        assert_eq!(key(MachineLoad { waiting_s: None, ..alone }), None, "a kernel that does not count it");
        let why = MachineLoad { others_s: 0.9, ..alone }.disturbance().unwrap();
        assert_eq!(why.text, "other work took 0.90 of 2 cores");
    }

    #[test]
    fn what_others_may_have_added_is_a_part_of_the_run() {
        let lost = |load: MachineLoad| (load.lost() * 100.0).round();
        let alone = load(2, 1.0, 1.0, 0.0, 0.05, 0);
        assert_eq!(lost(alone), 0.0, "waits for its own threads");
        assert_eq!(lost(MachineLoad { others_s: 0.9, ..alone }), 45.0, "beside another on its core");
        assert_eq!(lost(load(2, 1.0, 1.0, 0.9, 0.8, 0)), 80.0);
        assert_eq!(lost(MachineLoad { queue: 8, ..alone }), 80.0, "two of ten turns");
        assert_eq!(lost(MachineLoad { steal_s: 5.0, ..alone }), 90.0);
    }

    #[test]
    fn a_program_is_not_disturbed_by_itself() {
        assert_eq!(
            key(load(2, 1.0, 2.0, 0.02, 0.9, 0)),
            None,
            "as many threads as cores wait for each other"
        );
        // Measured load of a program and its pager on one core of an idle machine.
        assert_eq!(key(load(2, 0.676, 0.66, 0.01, 0.32, 0)), None);
    }

    #[test]
    fn work_that_has_cores_of_its_own_does_not_disturb() {
        assert_eq!(key(load(64, 10.0, 10.0, 30.0, 0.1, 3)), None);
        assert_eq!(key(load(64, 10.0, 10.0, 330.0, 0.1, 33)).as_deref(), Some("other-work"));
        assert_eq!(key(load(2, 1.0, 1.0, 0.5, 0.1, 0)).as_deref(), Some("other-work"));
    }

    #[test]
    fn threads_of_the_kernel_work_for_the_program() {
        let reading = |at_s: f64, busy_s: f64, own_s: f64, kernel: &[(u32, f64)]| MachineCounters {
            at_s,
            cores: 2,
            busy_s,
            own_s,
            kernel_s: kernel.iter().copied().collect(),
            ..MachineCounters::default()
        };
        let before = reading(100.0, 50.0, 7.0, &[(11, 1.0), (12, 5.0)]);
        // One kernel thread ended meanwhile. Its five seconds must not count as time of other work.
        let load = MachineLoad::between(&before, &reading(101.0, 51.6, 8.0, &[(11, 1.4), (13, 0.1)]));
        assert!((load.others_s - 0.2).abs() < 1e-9, "{load:?}");
        assert_eq!((load.wall_s, load.own_s, load.queue, load.waiting_s), (1.0, 1.0, 0, None));
        let backwards = MachineLoad::between(&reading(0.0, 9.0, 0.0, &[]), &reading(1.0, 8.0, 1.0, &[]));
        assert_eq!(backwards.others_s, 0.0, "counters that lag behind");
    }

    proptest! {
        #[test]
        fn more_of_others_never_makes_a_run_usable(
            wall_s in 0.01f64..100.0, own in 0.0f64..2.0, others in 0.0f64..2.0, more in 0.0f64..2.0,
        ) {
            let at = |others: f64| load(2, wall_s, own * wall_s, others * wall_s, 0.0, 0).disturbance();
            prop_assert!(at(others).is_none() || at(others + more).is_some());
        }

        #[test]
        fn any_load_is_judged(wall_s in 0.0f64..10.0, a in 0.0f64..10.0, b in 0.0f64..10.0, cores in 0u32..4) {
            let _ = load(cores, wall_s, a, b, a, 0).disturbance();
            let work = load(cores, wall_s, a, b, a, 0).other_work();
            prop_assert!(work.others_cores.is_finite() && work.waiting.unwrap().is_finite());
        }
    }
}
