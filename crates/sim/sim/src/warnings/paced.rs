//! Links that idled while messages that needed them were in flight.

use crate::setup::Setup;
use std::collections::BTreeMap;
use unrack_engine::events::LinkId;
use unrack_engine::run::Run;
use unrack_engine::topology::LinkEnd;
use unrack_units::Time;

/// Utilization of a link below which slow messages over the link count as held back by their senders.
const IDLE: f64 = 0.5;

/// Messages that their senders held back.
pub(super) struct HeldBack {
    /// Share of these messages in the bytes of all messages.
    pub share: f64,
    /// Mean utilization of the links at the ends of these messages, while the messages were in flight.
    pub utilization: f64,
}

/// Finds messages that took at least twice their unloaded time although the links at both ends idled for more than half
/// of the time in which messages needed them. If links between switches are busy, they are a sufficient cause, and no
/// message is found.
pub(super) fn held_back(setup: &Setup, run: &Run) -> HeldBack {
    let none = HeldBack { share: 0.0, utilization: 0.0 };
    let topology = &setup.network.topology;
    let (mut from, mut to, mut between) = (BTreeMap::new(), BTreeMap::new(), Time::ZERO);
    for (link, busy) in run.busy.iter() {
        match link {
            LinkId::Host(node) => _ = from.insert(node, busy),
            LinkId::Port(port) => match topology.end(port) {
                LinkEnd::Node(node) => _ = to.insert(node, busy),
                LinkEnd::Switch(_) => between = between.max(busy),
            },
        }
    }
    let first = run.outcomes.iter().map(|outcome| outcome.submitted).min().unwrap_or(Time::ZERO);
    if ratio(between, run.ended.saturating_sub(first)) >= IDLE {
        return none;
    }
    let (from, to) = (
        needed(run, &from, |index| run.messages[index].data_src()),
        needed(run, &to, |index| run.messages[index].data_dst()),
    );
    let (mut held, mut all, mut used) = (0.0, 0.0, 0.0);
    for (index, message) in run.messages.iter().enumerate() {
        let bytes = message.bytes as f64;
        all += bytes;
        let most = from[&message.data_src()].max(to[&message.data_dst()]);
        let is_slow = run.slowdown(index).is_none_or(|slowdown| slowdown >= 2.0);
        if is_slow && most < IDLE && is_long(setup, run, index) {
            (held, used) = (held + bytes, used + most * bytes);
        }
    }
    if held == 0.0 { none } else { HeldBack { share: held / all, utilization: used / held } }
}

/// Returns whether a message alone spends at least half of its time on sending. Other messages spend most of their time
/// on latency.
fn is_long(setup: &Setup, run: &Run, index: usize) -> bool {
    setup.network.topology.host_link().pace.transmit(run.messages[index].bytes) * 2 >= run.unloaded[index]
}

/// Returns the utilization of the link of each node during the time in which messages needed the link.
fn needed(run: &Run, busy: &BTreeMap<u32, Time>, node_of: impl Fn(usize) -> u32) -> BTreeMap<u32, f64> {
    let mut spans: BTreeMap<u32, (Time, Time)> = BTreeMap::new();
    // The union of periods is computed in one pass, because messages are in the order of submission.
    for (index, outcome) in run.outcomes.iter().enumerate() {
        let until = outcome.completed().unwrap_or(run.ended);
        let (sum, last) = spans.entry(node_of(index)).or_default();
        *sum += until.saturating_sub(outcome.submitted.max(*last));
        *last = until.max(*last);
    }
    let busy = |node: &u32| busy.get(node).copied().unwrap_or(Time::ZERO);
    spans.iter().map(|(node, (sum, _))| (*node, ratio(busy(node), *sum))).collect()
}

fn ratio(part: Time, whole: Time) -> f64 {
    if whole == Time::ZERO { 1.0 } else { part.as_ps() as f64 / whole.as_ps() as f64 }
}
