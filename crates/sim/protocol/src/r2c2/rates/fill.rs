//! Settling of rates: class by class, the rates of all flows rise until links are full.

use super::waiting::WaitingChanges;
use super::{GRAIN, LinkLoad, PriorityClass, Rates, Slot, WaterLevel};
use crate::r2c2::weights::LinkShare;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Working memory. It is empty between calls but stays allocated.
#[derive(Debug, Clone)]
pub(super) struct FillMemory {
    waiting: WaitingChanges,
    /// Flows limited by their tops, ordered by the level at which they reach them.
    limited: BinaryHeap<Reverse<(WaterLevel, Slot)>>,
    /// Number of flows whose rates are rising.
    rising: u32,
}

impl FillMemory {
    /// Creates empty working memory for `links` links.
    pub(super) fn new(links: usize) -> FillMemory {
        FillMemory { waiting: WaitingChanges::new(links), limited: BinaryHeap::new(), rising: 0 }
    }
}

/// Capacity of links that is available to a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClassCapacity {
    /// All of it, because the class is the first.
    All,
    /// The capacity that the preceding classes leave.
    Left,
}

impl Rates {
    /// Settles rates, starting with the first class that has changes. `from` returns the level from which on a class
    /// changes.
    pub(super) fn settle_from(&mut self, from: impl Fn(&PriorityClass) -> WaterLevel) {
        self.watch();
        let mut classes = std::mem::take(&mut self.classes);
        let first = classes.values().position(|class| from(class) < WaterLevel::NEVER);
        if let Some(first) = first {
            // Later classes cannot keep capacity that this class may take, so they start from scratch.
            for class in classes.values_mut().skip(first.max(1)) {
                self.release(class);
            }
            for (n, class) in classes.values_mut().enumerate().skip(first) {
                // The level at which a link fills is known only for the first class, which is served before all
                // others.
                match n {
                    0 => self.reopen(class, from(class)),
                    _ => self.open_fresh(class, ClassCapacity::Left),
                }
                self.fill(class, if n == 0 { ClassCapacity::All } else { ClassCapacity::Left });
            }
        }
        self.classes = classes;
        self.classes.retain(|_, class| class.members > 0);
    }

    fn forget_the_gone(&self, class: &mut PriorityClass) {
        let is_there = |(slot, serial): &(Slot, u32)| self.marks[*slot as usize].serial == *serial;
        class.settled.retain(is_there);
        class.fresh.retain(is_there);
    }

    /// Returns the capacity of all flows of a class to their links. These flows wait to rise again.
    fn release(&mut self, class: &mut PriorityClass) {
        self.forget_the_gone(class);
        for (slot, _) in &class.settled {
            let flow = &mut self.flows[*slot as usize];
            give_back(&mut self.loads, flow.watched(), [flow.rate_kbps, 0]);
            flow.rate_kbps = 0;
            self.marks[*slot as usize].level = WaterLevel::NEVER;
        }
        class.fresh.append(&mut class.settled);
    }

    /// Reopens the flows of the first class that were settled at this level or above: they return their capacity and
    /// rise again.
    fn reopen(&mut self, class: &mut PriorityClass, from: WaterLevel) {
        self.forget_the_gone(class);
        let kept = class.settled.partition_point(|(slot, _)| self.marks[*slot as usize].level < from);
        let entries = |flows: &[(Slot, u32)]| -> usize {
            flows.iter().map(|(slot, _)| self.flows[*slot as usize].watched().len()).sum()
        };
        // There are two ways with the same result: to undo the flows that change, or to place the flows that stay on
        // empty links. The one with fewer entries is taken.
        let (stay, change) = class.settled.split_at(kept);
        if entries(change) + entries(&class.fresh) <= self.watched.len() + entries(stay) {
            for (slot, _) in &class.settled[kept..] {
                let flow = &self.flows[*slot as usize];
                give_back(&mut self.loads, flow.watched(), [flow.rate_kbps, flow.asked.weight.into()]);
                self.open(class, *slot, ClassCapacity::All);
            }
            class.settled.truncate(kept);
            return self.open_fresh(class, ClassCapacity::All);
        }
        for link in self.watched.iter().map(|link| *link as usize) {
            self.loads[link] = LinkLoad { left: self.capacity[link], rising: class.uses[link].weights };
        }
        for (slot, _) in stay {
            let flow = &self.flows[*slot as usize];
            take(&mut self.loads, flow.watched(), [flow.rate_kbps, flow.asked.weight.into()]);
        }
        for (slot, _) in class.settled[kept..].iter().chain(&class.fresh) {
            self.open(class, *slot, ClassCapacity::All);
        }
        class.settled.truncate(kept);
        class.fresh.clear();
    }

    /// Opens all fresh flows of a class.
    fn open_fresh(&mut self, class: &mut PriorityClass, room: ClassCapacity) {
        for (slot, _) in std::mem::take(&mut class.fresh) {
            let flow = &self.flows[slot as usize];
            give_back(&mut self.loads, flow.watched(), [0, flow.asked.weight.into()]);
            self.open(class, slot, room);
        }
    }

    /// Opens a flow. Its rate rises until a link is full, or only to its top if it reaches the top before any of its
    /// links can fill.
    fn open(&mut self, class: &PriorityClass, slot: Slot, room: ClassCapacity) {
        let flow = &self.flows[slot as usize];
        self.marks[slot as usize].level = WaterLevel::RISING;
        self.space.rising += 1;
        if flow.top.link.is_none_or(|link| !self.may_fill(class, link, room)) {
            self.space.limited.push(Reverse((WaterLevel::of_top(flow.asked, flow.top), slot)));
        }
    }

    /// Returns whether a link has too little room for all flows of a class at their tops. With `Room::Left`, the
    /// result is valid only before any flow of the class is settled.
    fn may_fill(&self, class: &PriorityClass, link: u32, room: ClassCapacity) -> bool {
        let room = match room {
            ClassCapacity::All => self.capacity[link as usize],
            ClassCapacity::Left => self.loads[link as usize].left,
        };
        class.uses[link as usize].tops > room >> GRAIN
    }

    /// Raises the rates of the open flows until all are settled.
    fn fill(&mut self, class: &mut PriorityClass, room: ClassCapacity) {
        for link in &self.watched {
            let LinkLoad { left, rising } = self.loads[*link as usize];
            if rising > 0 && self.may_fill(class, *link, room) {
                self.space.waiting.push(WaterLevel::saturating(left, rising), *link);
            }
        }
        let last =
            class.settled.last().map_or(WaterLevel::ZERO, |(slot, _)| self.marks[*slot as usize].level);
        self.rise(class, last);
        debug_assert!(self.watched.iter().all(|link| self.loads[*link as usize].rising == 0));
        self.space.waiting.clear();
        self.space.limited.clear();
        class.from = WaterLevel::NEVER;
    }

    /// Processes events in the order of their levels: a link becomes full, or a flow reaches its top.
    fn rise(&mut self, class: &mut PriorityClass, mut now: WaterLevel) {
        while self.space.rising > 0 {
            // When other flows are settled, more capacity is left for those that are still rising.
            let level = |link: u32| {
                let LinkLoad { left, rising } = self.loads[link as usize];
                (rising > 0).then(|| WaterLevel::saturating(left, rising))
            };
            let link = self.space.waiting.first(level);
            let flow = self.space.limited.peek().map(|Reverse(flow)| *flow);
            match (flow, link) {
                // Links come before flows at the same level. Otherwise the result for a flow would depend on the order
                // among the links that may fill.
                (Some((level, slot)), link) if link.is_none_or(|link| level < link.0) => {
                    self.space.limited.pop();
                    if self.marks[slot as usize].level == WaterLevel::RISING {
                        now = now.max(level);
                        self.settle_flow(class, slot, now);
                    }
                }
                (_, Some((level, link))) => {
                    now = now.max(level);
                    self.settle_link(class, link, now);
                }
                (_, None) => unreachable!("a flow that rises is on a link that may fill, or limited"),
            }
        }
    }

    /// Settles all rising flows of a full link.
    fn settle_link(&mut self, class: &mut PriorityClass, link: u32, now: WaterLevel) {
        let mut users = std::mem::take(&mut self.users[link as usize]);
        users.retain(|(slot, serial)| {
            let mark = self.marks[*slot as usize];
            let is_there = mark.serial == *serial;
            if is_there && mark.level == WaterLevel::RISING {
                self.settle_flow(class, *slot, now);
            }
            is_there
        });
        self.users[link as usize] = users;
    }

    fn settle_flow(&mut self, class: &mut PriorityClass, slot: Slot, now: WaterLevel) {
        let (flow, mark) = (&mut self.flows[slot as usize], &mut self.marks[slot as usize]);
        flow.rate_kbps = now.0.saturating_mul(flow.asked.weight.into()).min(flow.top.kbps);
        mark.level = now;
        take(&mut self.loads, flow.watched(), [flow.rate_kbps, flow.asked.weight.into()]);
        class.settled.push((slot, mark.serial));
        self.space.rising -= 1;
    }
}

/// Subtracts the rate and the weight of a flow from its links.
fn take(loads: &mut [LinkLoad], shares: &[LinkShare], [rate, weight]: [u32; 2]) {
    for LinkShare { link, share } in shares {
        let load = &mut loads[*link as usize];
        load.left -= u64::from(*share) * u64::from(rate);
        load.rising -= u64::from(*share) * u64::from(weight);
    }
}

/// Returns the rate of a flow to its links, and adds its weight to those of the rising flows.
fn give_back(loads: &mut [LinkLoad], shares: &[LinkShare], [rate, weight]: [u32; 2]) {
    for LinkShare { link, share } in shares {
        let load = &mut loads[*link as usize];
        load.left += u64::from(*share) * u64::from(rate);
        load.rising += u64::from(*share) * u64::from(weight);
    }
}
