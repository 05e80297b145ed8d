//! Warnings about a run whose figures depend on more than the fabric. They are for readers who use the figures to
//! compare fabrics.
//!
//! | key | condition |
//! |---|---|
//! | `unfinished` | a message did not finish; therefore the figures leave it out |
//! | `drops` | messages that lost packets raise the mean slowdown by half ([`DECIDES`]); if all messages lost packets, the run takes 1.5 times as long as its busiest link needs |
//! | `buffer` | packets were dropped, and ports have less buffer than the paper of the protocol expects |
//! | `paced` | most bytes belonged to messages whose senders held them back by their rates while the links at both ends idled |
//! | `overload` | the links of a kind were offered more than they can carry, while messages were submitted |
//! | `saturated` | most messages ([`MOST`]) crossed a link that was busy nearly all of that time ([`NEARLY_ALL`]) |
//! | `unsteady` | twice as many messages were in flight in the second half ([`GROWS`]), and messages were slower ([`SLOWER`]) |
//!
//! The last three apply only to messages that are submitted at given times. If messages wait for others (jobs,
//! collectives, closed-loop replay), links are busy whenever there is data to send, and the run has no steady state.

mod load;
mod paced;
mod words;

use self::load::LinkUtilization;
use crate::job::Finished;
use crate::setup::Setup;
use crate::summary::Excluded;
use std::ops::Range;
use unrack_engine::run::Run;
use unrack_rack::{ValidScenario, Workload};
use unrack_units::{Time, Warning};

/// Threshold for the warning `drops`: the ratio of the mean slowdown of all messages to that of messages without
/// losses. From this ratio on, a third of the mean or more is due to drops.
///
/// Fabrics that drop by design stay below it, whatever the buffer: pFabric reaches at most 1.15. Packets that NDP's
/// switches trim do not count as dropped. For Homa and IRD, whose losses cause timeouts, the ratio is within 10 % of
/// the change that a larger buffer would bring.
pub const DECIDES: f64 = 1.5;

/// Threshold for a saturated link: it is busy for at least this share of the time during which messages are submitted.
/// A queue with random arrivals grows as 1 / (1 - utilization). At this threshold it holds twenty packets, and at 2.5 %
/// more it holds twice as many. Therefore the figures depend more on the last percent of load than on the fabric.
pub const NEARLY_ALL: f64 = 0.95;

/// Threshold for the share of messages over saturated links. From this share on, they decide the figures, because the
/// median message is one of them.
pub const MOST: f64 = 0.5;

/// Threshold for a run that is not steady: the ratio of the messages in flight in its second half to those in its
/// first. The ratio is 1 in a steady run, and 3 if the number of messages in flight grows as long as messages are
/// submitted. This is halfway between the two.
pub const GROWS: f64 = 2.0;

/// Threshold for growth that decides the figures: the ratio of the mean slowdown of the second half to that of the
/// first. Without this condition, a tail of few large messages would count as growth.
pub const SLOWER: f64 = 1.25;

/// Minimum number of messages that must count for the three warnings about load. It is a hundred in each half, so that
/// a mean slowdown whose standard deviation equals its mean is known to 10 %.
pub const FEWEST: usize = 200;

/// Returns the warnings about a run of this scenario, in the order of the table above. `excluded` are the messages that
/// its summary leaves out.
pub fn warnings(
    scenario: &ValidScenario,
    setup: &Setup,
    done: &Finished,
    excluded: Excluded,
) -> Vec<Warning> {
    let run = &done.run;
    let rows = excluded.rows(run.messages.len());
    let at_once = [words::unfinished(scenario, run), drops(scenario, setup, run, rows.clone())];
    let mut found: Vec<Warning> = at_once.into_iter().flatten().collect();
    found.extend(small_buffer(scenario, setup, run));
    found.extend(paced(setup, run));
    if rows.len() >= FEWEST && comes_by_itself(scenario) {
        found.extend(loaded(scenario, setup, run));
        found.extend(unsteady(scenario, run, rows));
    }
    found
}

/// Returns whether messages are submitted without waiting for others.
fn comes_by_itself(scenario: &ValidScenario) -> bool {
    match &scenario.workload {
        Workload::Memory(_) | Workload::Flows(_) => true,
        Workload::Trace(trace) => trace.replay == unrack_rack::Replay::OpenLoop,
        Workload::Collective(_) | Workload::Jobs(_) => false,
    }
}

/// Returns the mean slowdown of the given rows that finished, and their number; `None` if there are none.
fn mean_slowdown(run: &Run, rows: impl Iterator<Item = usize>) -> Option<(f64, usize)> {
    let (mut sum, mut count) = (0.0, 0);
    for slowdown in rows.filter_map(|row| run.slowdown(row)) {
        (sum, count) = (sum + slowdown, count + 1);
    }
    (count > 0).then(|| (sum / count as f64, count))
}

fn drops(scenario: &ValidScenario, setup: &Setup, run: &Run, rows: Range<usize>) -> Option<Warning> {
    let (mean, all) = mean_slowdown(run, rows.clone())?;
    match mean_slowdown(run, rows.filter(|row| run.outcomes[*row].drops == 0)) {
        Some((unharmed, _)) if mean < unharmed * DECIDES => None,
        Some((unharmed, others)) => {
            let share = (all - others) as f64 / all as f64;
            Some(words::drops(scenario, run, share, Some((unharmed, mean))))
        }
        // All messages lost packets, so that there are none without losses to compare with. The time of the busiest
        // link is compared instead.
        None if over_busiest(setup, run) < DECIDES => None,
        None => Some(words::drops(scenario, run, 1.0, None)),
    }
}

/// Returns the time from the first submission to the last completion, divided by the time in which the busiest link of
/// a node carries the payload of its messages. No fabric can have a ratio below 1.
fn over_busiest(setup: &Setup, run: &Run) -> f64 {
    let mut bytes = vec![[0; 2]; setup.network.nodes() as usize];
    for message in &run.messages {
        bytes[message.data_src() as usize][0] += message.bytes;
        bytes[message.data_dst() as usize][1] += message.bytes;
    }
    let busiest = bytes.into_iter().flatten().max().unwrap_or(0);
    let least = setup.network.topology.host_link().pace.transmit(busiest);
    let first = run.outcomes.iter().map(|outcome| outcome.submitted).min().unwrap_or_default();
    let last = run.outcomes.iter().filter_map(|outcome| outcome.completed()).max().unwrap_or_default();
    last.saturating_sub(first).as_ps() as f64 / least.as_ps().max(1) as f64
}

fn small_buffer(scenario: &ValidScenario, setup: &Setup, run: &Run) -> Option<Warning> {
    let assumed = setup.assumed_buffer()?;
    let is_small = setup.ethernet.buffer.of_port() < assumed.bytes && run.counters.dropped_packets > 0;
    is_small.then(|| words::small_buffer(scenario, run, assumed))
}

fn paced(setup: &Setup, run: &Run) -> Option<Warning> {
    let advice = setup.fabric.against_pacing()?;
    let held = paced::held_back(setup, run);
    (held.share >= MOST).then(|| words::paced(held.share, held.utilization, advice))
}

fn loaded(scenario: &ValidScenario, setup: &Setup, run: &Run) -> Option<Warning> {
    let load = LinkUtilization::new(&setup.network.topology, run)?;
    if let Some((kind, utilization)) = load.overloaded() {
        return Some(words::overload(scenario, kind, utilization));
    }
    (load.share() >= MOST).then(|| words::saturated(scenario, &load))
}

fn unsteady(scenario: &ValidScenario, run: &Run, rows: Range<usize>) -> Option<Warning> {
    let grown = growth(run, rows.clone())?;
    let middle = rows.start + rows.len() / 2;
    let (first, _) = mean_slowdown(run, rows.start..middle)?;
    let (second, _) = mean_slowdown(run, middle..rows.end)?;
    let fires = grown >= GROWS && second >= first * SLOWER;
    fires.then(|| words::unsteady(scenario, run, grown, (first, second)))
}

/// Returns the ratio of the messages in flight in the second half of the time of submissions to those in the first
/// half.
///
/// It does not matter where messages wait: the fabric may hold them in switches, or at nodes for a grant or a window.
fn growth(run: &Run, rows: Range<usize>) -> Option<f64> {
    let outcomes = &run.outcomes[rows];
    let (start, end) = (outcomes.first()?.submitted, outcomes.last()?.submitted);
    let middle = start + Time::from_ps((end - start).as_ps() / 2);
    let within = |from: Time, until: Time| -> f64 {
        let overlap = outcomes.iter().map(|outcome| {
            let completed = outcome.completed().unwrap_or(Time::MAX).min(until);
            completed.saturating_sub(outcome.submitted.max(from)).as_ps() as f64
        });
        overlap.sum::<f64>() / (until - from).as_ps() as f64
    };
    let ratio = (end > middle && middle > start).then(|| within(middle, end) / within(start, middle))?;
    ratio.is_finite().then_some(ratio)
}
