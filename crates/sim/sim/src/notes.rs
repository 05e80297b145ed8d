//! Notes about settings that never acted in a run. A comparison of two values of such a setting shows no difference, because nothing
//! depended on it; without the note, equal figures would look like a result.
//!
//! | key | never acted |
//! |---|---|
//! | `marks`, `pauses`, `trims`, `credits`, `active`, `rates` | the mechanism for which the protocol is known ([`Registered::never_acted`](crate::Registered::never_acted)) |
//! | `buffer` | `network.switch.buffer`, if it is not the default: no packet found its port full |
//! | `timeouts` | the timeouts ([`TIMEOUTS`]) that are not the defaults: no timer expired, and nothing was sent again |
//! | `faults` | `failures` and `bit_errors`: nothing crossed a link that was down, and no packet had an error |
//! | `cache` | the DRAM cache of hosts: no load hit it |
//! | `headroom`, `receive-queue` | `host.nic.headroom` and `host.nic.receive_queue`, if they are not the defaults: no packet found them full |
//!
//! A mechanism that acted once is not noted, even if it hardly mattered.

use crate::job::Finished;
use crate::setup::Setup;
use unrack_engine::events::Mechanism;
use unrack_engine::run::Run;
use unrack_rack::{Nic, ValidScenario};
use unrack_units::Warning;

/// Keys of `fabric` that are timeouts after which protocols send again.
pub const TIMEOUTS: [&str; 4] = ["min_rto", "rto", "resend", "timeout"];

/// Returns the notes about a run of this scenario, in the order of the table above.
pub fn notes(scenario: &ValidScenario, setup: &Setup, done: &Finished) -> Vec<Warning> {
    let run = &done.run;
    let common =
        [buffer(scenario, run), timeouts(scenario, run), faults(scenario, run)].into_iter().flatten();
    setup.fabric.never_acted(run).into_iter().chain(common).chain(hosts(scenario, run)).collect()
}

fn buffer(scenario: &ValidScenario, run: &Run) -> Option<Warning> {
    let acted = [Mechanism::FullBuffer, Mechanism::Pause].iter().any(|of| run.counters.acted(*of) > 0);
    let is_noted = scenario.changes_buffer() && !acted && run.counters.trimmed_packets == 0;
    is_noted.then(|| {
        let text = format!(
            "`network.switch.buffer` ({}) was never full: the longest queue that a packet met held {} B",
            scenario.network.switch.buffer,
            run.queue_bytes.max()
        );
        Warning::new("buffer", text)
    })
}

fn timeouts(scenario: &ValidScenario, run: &Run) -> Option<Warning> {
    let set: Vec<&str> = TIMEOUTS.into_iter().filter(|key| scenario.changes_fabric(key)).collect();
    let is_again = run.outcomes.iter().any(|outcome| outcome.retransmissions > 0);
    let is_noted = !set.is_empty() && run.counters.acted(Mechanism::Timeout) == 0 && !is_again;
    is_noted.then(|| {
        let keys = set.iter().map(|key| format!("`fabric.{key}`")).collect::<Vec<_>>().join(" and ");
        Warning::new(
            "timeouts",
            format!("{keys} had no effect: no timer expired, and nothing was sent again"),
        )
    })
}

fn faults(scenario: &ValidScenario, run: &Run) -> Option<Warning> {
    let failures = &scenario.faults.failures;
    let first = failures.iter().map(|failure| failure.from).min();
    let is_late = first.is_none_or(|first| first > run.ended);
    // Packets may avoid a failure that the network detects; they act on it without a loss.
    let is_detected = failures.iter().any(|failure| failure.detected_after.is_some());
    let acted = run.counters.acted(Mechanism::Fault) > 0 || (is_detected && !is_late);
    (!scenario.faults.is_empty() && !acted).then(|| {
        let text = match first {
            Some(first) if first > run.ended => {
                format!(
                    "no failure happened: the first begins at {first}, and the run ended at {}",
                    run.ended
                )
            }
            Some(_) => "`failures` hit no traffic: nothing crossed a link while it was down".into(),
            None => "`bit_errors` had no effect: no packet had an error".to_string(),
        };
        Warning::new("faults", text)
    })
}

fn hosts(scenario: &ValidScenario, run: &Run) -> Vec<Warning> {
    let (Some(spec), Some(counts)) = (&scenario.host, &run.hosts) else { return Vec::new() };
    let mut notes = Vec::new();
    if spec.dram_cache && counts.hits == 0 {
        let text = match counts.loads {
            0 => "the DRAM cache was never used: no load was looked up in it".to_string(),
            loads => format!("the DRAM cache never helped: none of {loads} loads hit it"),
        };
        notes.push(Warning::new("cache", text));
    }
    let usual = Nic::default();
    if spec.nic.headroom != usual.headroom && counts.no_room == 0 {
        let text =
            format!("`host.nic.headroom` ({}) was never full: no NIC lost a packet", spec.nic.headroom);
        notes.push(Warning::new("headroom", text));
    }
    if spec.nic.receive_queue != usual.receive_queue && counts.no_descriptor == 0 {
        let descriptors = spec.nic.receive_queue;
        let text = format!("`host.nic.receive_queue` ({descriptors}) was never empty of free descriptors");
        notes.push(Warning::new("receive-queue", text));
    }
    notes
}
