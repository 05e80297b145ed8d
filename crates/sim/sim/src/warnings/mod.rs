//! Warnings about a run whose figures depend on more than the fabric, for readers who compare fabrics by them.
//!
//! | key | fires when |
//! |---|---|
//! | `unfinished` | a message did not finish: the figures leave it out |
//! | `drops` | messages that lost packets raise the mean slowdown by half ([`DECIDES`]); if all lost some, the run takes half as long again as its busiest link needs |
//! | `buffer` | packets were dropped, and ports have less buffer than the protocol's paper counts on |
//! | `paced` | most bytes were of messages that their senders' rates held back while the links at both ends idled |
//! | `overload` | the links of a kind had more to carry than they can, while messages came |
//! | `saturated` | most messages ([`MOST`]) crossed a link that was busy nearly all of that time ([`NEARLY_ALL`]) |
//! | `unsteady` | twice as much was under way in the second half ([`GROWS`]), and messages were slower ([`SLOWER`]) |
//!
//! The last three are about messages that come at times of their own. Where messages wait for others (jobs,
//! collectives, closed-loop replay), links are busy as long as there is something to send, and nothing is steady.

mod load;
mod paced;
mod words;

use self::load::Load;
use crate::job::Finished;
use crate::setup::Setup;
use crate::summary::Excluded;
use std::ops::Range;
use unrack_engine::run::Run;
use unrack_rack::{ValidScenario, Workload};
use unrack_units::{Time, Warning};

/// Ratio of the mean slowdown of all messages to that of those that lost nothing, from which on drops decide it: a
/// third of the mean, or more, is then due to them.
///
/// Fabrics that drop by design stay below, whatever the buffer: pFabric has up to 1.15. Packets that NDP's switches trim
/// are not dropped. For Homa and IRD, whose losses cause timeouts, the ratio is within 10 % of what a larger buffer would
/// change.
pub const DECIDES: f64 = 1.5;

/// Share of the time in which messages came, from which on a link counts as saturated. A queue with random arrivals
/// grows as 1 / (1 - utilization): here to twenty packets, and twice that for the next 2.5 %, so that the figure says
/// more of the last percent of load than of the fabric.
pub const NEARLY_ALL: f64 = 0.95;

/// Share of messages over saturated links, from which on these decide the figures: the median is one of them.
pub const MOST: f64 = 0.5;

/// Ratio of the messages under way in the second half of a run to those in the first, from which on the run is not
/// steady. It is 1 in a steady run and 3 if messages under way grow as long as messages come; this is halfway.
pub const GROWS: f64 = 2.0;

/// Ratio of the mean slowdown of the second half to that of the first, from which on the growth decides the figure. A
/// tail of few large messages grows without that.
pub const SLOWER: f64 = 1.25;

/// Fewest messages that must count for the three warnings about load: a hundred in each half, so that a mean slowdown
/// whose spread is its mean is known to 10 %.
pub const FEWEST: usize = 200;

/// Returns the warnings about a run of this scenario, in the order of the table above. `excluded` are the messages
/// that its summary leaves out.
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

/// Returns whether messages come without waiting for others.
fn comes_by_itself(scenario: &ValidScenario) -> bool {
    match &scenario.workload {
        Workload::Memory(_) | Workload::Flows(_) => true,
        Workload::Trace(trace) => trace.replay == unrack_rack::Replay::OpenLoop,
        Workload::Collective(_) | Workload::Jobs(_) => false,
    }
}

/// Returns the mean slowdown of those rows that finished, and their number.
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
        // All lost packets, so the time of their busiest link is what is left to compare with.
        None if over_busiest(setup, run) < DECIDES => None,
        None => Some(words::drops(scenario, run, 1.0, None)),
    }
}

/// Returns the time from the first submission to the last completion, over that in which the busiest link of a node
/// carries the payload of its messages: no fabric is below 1.
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
    let load = Load::new(&setup.network.topology, run)?;
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

/// Returns the messages under way in the second half of the time in which these came, over those in the first.
///
/// Messages wait where the fabric has them wait: in switches, or at nodes for a grant or a window.
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
