//! Warnings as sentences: each has the cause of a figure, and the key to change with its present value.

use super::load::{Kind, LinkUtilization};
use super::{GROWS, NEARLY_ALL};
use crate::contract::AssumedBuffer;
use unrack_engine::run::Run;
use unrack_rack::{ValidScenario, Workload};
use unrack_units::Warning;

/// Warns about messages that did not finish; `None` if all finished.
pub(super) fn unfinished(scenario: &ValidScenario, run: &Run) -> Option<Warning> {
    let (all, finished) = (run.messages.len() as u64, run.finished());
    let key = match scenario.faults.is_empty() {
        false => "`failures` and `bit_errors` configure what breaks".to_string(),
        true => format!("raise `network.switch.buffer` (now {})", scenario.network.switch.buffer),
    };
    let text = format!(
        "{} of {all} messages did not finish ({}); the figures are of the others: {key}",
        all - finished,
        run.ending.why_unfinished()
    );
    (finished < all).then(|| Warning::new("unfinished", text))
}

/// Warns that `share` of the messages lost packets. `means` are the mean slowdown of the messages without losses, and
/// that of all messages.
pub(super) fn drops(scenario: &ValidScenario, run: &Run, share: f64, means: Option<(f64, f64)>) -> Warning {
    let effect = means.map_or(String::new(), |(others, all)| {
        format!(" and raise the mean slowdown from {others:.2} to {all:.2}")
    });
    let text = format!(
        "drops decide the figures: {} of the messages lost packets ({} in all){effect}; {}",
        percent(share),
        run.counters.dropped_packets,
        drop_advice(scenario, run)
    );
    Warning::new("drops", text)
}

/// Warns that packets were dropped, and that ports have less buffer than the protocol expects.
pub(super) fn small_buffer(scenario: &ValidScenario, run: &Run, assumed: AssumedBuffer) -> Warning {
    let text = format!(
        "`{}` counts on a buffer of {} at each port ({}), and {} packets were dropped; raise `network.switch.buffer` (now {})",
        scenario.protocol,
        assumed.bytes,
        assumed.holds,
        run.counters.dropped_packets,
        scenario.network.switch.buffer
    );
    Warning::new("buffer", text)
}

/// Warns that senders held messages back while links idled.
pub(super) fn paced(share: f64, utilization: f64, advice: &str) -> Warning {
    let text = format!(
        "senders held back {} of the bytes while the links at both ends idled: these carried bits in {} of the time \
         in which messages needed them; {advice}",
        percent(share),
        percent(utilization)
    );
    Warning::new("paced", text)
}

/// Returns the key to change against drops. It depends on where most drops occurred.
fn drop_advice(scenario: &ValidScenario, run: &Run) -> String {
    let hosts =
        run.hosts.as_ref().map_or([0; 3], |hosts| [hosts.no_room, hosts.no_descriptor, hosts.no_buffer]);
    let inside: u64 = hosts.iter().sum();
    if inside * 2 > run.counters.dropped_packets
        && let Some(host) = &scenario.host
    {
        let most = (0..3).max_by_key(|which| hosts[*which]).unwrap_or(0);
        return match most {
            0 => format!("raise `host.nic.headroom` (now {})", host.nic.headroom),
            1 => format!("raise `host.nic.receive_queue` (now {})", host.nic.receive_queue),
            _ => format!("raise `host.memory.size` (now {})", host.memory.size),
        };
    }
    let buffer = format!("raise `network.switch.buffer` (now {})", scenario.network.switch.buffer);
    match scenario.faults.is_empty() {
        true => buffer,
        false => format!("`failures` and `bit_errors` lose packets; for those that find no room, {buffer}"),
    }
}

/// Warns that links of this kind were offered more than they can carry.
pub(super) fn overload(scenario: &ValidScenario, kind: Kind, utilization: f64) -> Warning {
    let (links, rate) = (kind.name(), rate_key(scenario, kind));
    let text = format!(
        "{links} were offered {utilization:.2} times what they carry, headers included, so the figures grow with the \
         length of the run; {}, or raise `{rate}` (now {})",
        less_load(scenario),
        rate_of(scenario, kind)
    );
    Warning::new("overload", text)
}

/// Warns that most messages crossed links that were busy nearly all the time.
pub(super) fn saturated(scenario: &ValidScenario, load: &LinkUtilization) -> Warning {
    let (saturated, all, most) = load.saturated();
    let rate = rate_key(scenario, load.busiest());
    let text = format!(
        "saturated links decide the figures: {saturated} of {all} were busy for {} or more of the time in which \
         messages arrived (the busiest was offered {most:.2} times what it carries), and {} of the messages crossed \
         one; {}, or raise `{rate}` (now {})",
        percent(NEARLY_ALL),
        percent(load.share()),
        less_load(scenario),
        rate_of(scenario, load.busiest())
    );
    Warning::new("saturated", text)
}

/// Warns that the number of messages in flight grew by the factor `grown` from the first half to the second, and that
/// the mean slowdown grew from the first to the second of the two values.
pub(super) fn unsteady(
    scenario: &ValidScenario,
    run: &Run,
    grown: f64,
    (first, second): (f64, f64),
) -> Warning {
    debug_assert!(grown >= GROWS);
    let text = format!(
        "queues grew to the end: {grown:.1} times as many messages were under way in the second half of the run as in the \
         first, and the mean slowdown rose from {first:.2} to {second:.2}; {}, or check with more \
         `workload.messages` (now {}) and a `workload.warm_up` whether it settles",
        less_load(scenario),
        run.messages.len()
    );
    Warning::new("unsteady", text)
}

fn less_load(scenario: &ValidScenario) -> String {
    let load = match &scenario.workload {
        Workload::Memory(memory) => memory.load,
        Workload::Flows(flows) => flows.load,
        Workload::Trace(_) | Workload::Collective(_) | Workload::Jobs(_) => {
            return "spread the messages of `workload.file` over more time".into();
        }
    };
    format!("lower `workload.load` (now {load})")
}

/// Returns the scenario key for the rate of links of this kind.
fn rate_key(scenario: &ValidScenario, kind: Kind) -> &'static str {
    match kind {
        Kind::BetweenSwitches if !scenario.network.topology.is_direct() => "network.core_link.rate",
        _ => "network.link.rate",
    }
}

fn rate_of(scenario: &ValidScenario, kind: Kind) -> String {
    let network = &scenario.network;
    match kind {
        Kind::BetweenSwitches if !network.topology.is_direct() => network.core_link.rate.to_string(),
        _ => network.link.rate.to_string(),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}
