//! Reads the counters of the machine from `/proc`. Missing counters count as zero.

use crate::disturbance::MachineCounters;
use crate::proc;
use rustix::thread::CpuSet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use unrack_pager::sys::now_ns;

/// Environment variable with a folder that is read instead of `/proc`, so that tests see a machine with a known load.
pub const PROC_VARIABLE: &str = "UNRACK_PROC";
/// Process number of the first kernel thread, which is the parent of all other kernel threads.
const KTHREADD: u32 = 2;

impl MachineCounters {
    /// Reads the counters. Takes some milliseconds, because it reads one file per kernel thread.
    pub fn now() -> MachineCounters {
        MachineCounters::with(None)
    }

    /// Reads the counters. The CPU time of `process`, which is not a descendant of this process, and of the children that it has waited for
    /// counts as this process's own.
    pub fn with(process: Option<u32>) -> MachineCounters {
        let root = std::env::var_os(PROC_VARIABLE).map_or_else(|| PathBuf::from("/proc"), PathBuf::from);
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap_or_default();
        let usable = rustix::thread::sched_getaffinity(None).ok();
        let cores = cores(&read("stat"), |core| is_usable(usable.as_ref(), core));
        let with_children = |name: &str| ticks(&read(name)).map_or(0, |ticks| ticks.own + ticks.children);
        let other = process.map_or(0, |pid| with_children(&format!("{pid}/stat")));
        MachineCounters {
            at_s: now_ns() as f64 / 1e9,
            cores: cores.number,
            busy_s: seconds(cores.busy),
            steal_s: seconds(cores.steal),
            own_s: seconds(with_children("self/stat") + other),
            kernel_s: kernel_threads(&root),
            waiting_s: waiting_us(&read("pressure/cpu")).map(|us| us as f64 / 1e6),
            queue: runnable(&read("loadavg")).saturating_sub(1),
        }
    }
}

fn is_usable(usable: Option<&CpuSet>, core: usize) -> bool {
    usable.is_none_or(|usable| core < CpuSet::MAX_CPU && usable.is_set(core))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// CPU ticks, summed over several cores.
#[derive(Debug, Default, PartialEq)]
struct CoreTicks {
    number: u32,
    busy: u64,
    steal: u64,
}

/// Parses /proc/stat, proc_pid_stat(5). The fields are user, nice, system, idle, iowait, irq, softirq, steal, and then the guests' time,
/// which is part of user.
fn cores(stat: &str, is_usable: impl Fn(usize) -> bool) -> CoreTicks {
    let mut cores = CoreTicks::default();
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        if let (Some(true), [user, nice, system, _, _, irq, softirq, steal, ..]) =
            (number.map(&is_usable), &ticks[..])
        {
            cores.number += 1;
            cores.busy += user + nice + system + irq + softirq;
            cores.steal += steal;
        }
    }
    cores
}

/// CPU time of a process, in ticks.
#[derive(Debug, PartialEq)]
struct Ticks {
    own: u64,
    /// CPU time of the children that the process has waited for, and of their children.
    children: u64,
}

/// Parses fields 14 to 17, counted from 1. The second field is a name in parentheses that may contain any character.
fn ticks(stat: &str) -> Option<Ticks> {
    let behind_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = behind_name.split_ascii_whitespace().skip(11).map_while(|word| word.parse::<u64>().ok());
    let (user, system) = (fields.next()?, fields.next()?);
    Some(Ticks { own: user + system, children: fields.next()? + fields.next()? })
}

/// Returns the user time and the system time of all children that have ended and were waited for, in seconds.
pub(crate) fn children_s() -> [f64; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_ticks(&stat).map(seconds)
}

/// Returns `cutime` and `cstime`, fields 16 and 17.
fn children_ticks(stat: &str) -> [u64; 2] {
    // The second field is the program's name in parentheses, which may contain any character.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(13);
    [(); 2].map(|()| fields.next().and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
}

fn kernel_threads(root: &Path) -> BTreeMap<u32, f64> {
    let stat = |id: u32| std::fs::read_to_string(root.join(format!("{id}/stat"))).ok();
    let is_kernel = proc::name(KTHREADD).is_some_and(|name| name == "kthreadd");
    let threads = if is_kernel { proc::children(KTHREADD) } else { Vec::new() };
    threads.into_iter().filter_map(|id| Some((id, seconds(ticks(&stat(id)?)?.own)))).collect()
}

/// Returns the microseconds in which at least one task waited for a core.
fn waiting_us(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some"))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

/// Returns the number of runnable tasks: for example, 2 (of 95) for `0.13 0.57 0.86 2/95 22536`.
fn runnable(loadavg: &str) -> u32 {
    let tasks = loadavg.split_ascii_whitespace().nth(3).and_then(|word| word.split('/').next());
    tasks.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let stat =
            "cpu  10 1 5 80 2 0 3 4 0 0\ncpu0 6 1 3 40 1 0 2 1 0 0\ncpu1 4 0 2 40 1 0 1 3 0 0\nintr 1 2 3\n";
        assert_eq!(cores(stat, |_| true), CoreTicks { number: 2, busy: 19, steal: 4 });
        assert_eq!(cores(stat, |core| core == 1), CoreTicks { number: 1, busy: 7, steal: 3 });
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 99 0 0 0 11 22 333 444 20 0 1 0";
        assert_eq!(ticks(stat), Some(Ticks { own: 33, children: 777 }));
        let pressure = "some avg10=4.72 avg60=6.13 avg300=2.77 total=50229261\nfull avg10=0.00 total=0\n";
        assert_eq!(waiting_us(pressure), Some(50_229_261));
        assert_eq!(runnable("0.13 0.57 0.86 2/95 22536\n"), 2);
    }

    #[test]
    fn what_is_not_there_counts_as_nothing() {
        assert_eq!(cores("", |_| true), CoreTicks::default());
        assert_eq!((ticks(""), ticks("7 (a) R 1"), waiting_us(""), runnable("")), (None, None, None, 0));
    }

    #[test]
    fn ticks_of_children_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 2 3 0 0 5 6 70 80 20 0 1 0";
        assert_eq!(children_ticks(stat), [70, 80]);
        assert_eq!(children_ticks(""), [0, 0]);
    }

    #[test]
    fn this_machine_goes_on_between_two_readings() {
        let before = MachineCounters::now();
        let until = std::time::Instant::now() + std::time::Duration::from_millis(60);
        while std::time::Instant::now() < until {}
        let after = MachineCounters::now();
        assert!(
            after.cores > 0 && after.at_s > before.at_s && after.own_s > before.own_s,
            "{before:?} {after:?}"
        );
        assert!(after.busy_s > before.busy_s, "{before:?} {after:?}");
    }
}
