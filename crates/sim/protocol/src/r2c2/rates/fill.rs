//! Computation of rates by water-filling, one priority class after the other: the rates of all flows of a class rise together until links
//! are full. A rate is *settled* once it stops rising.

use super::waiting::WaitingChanges;
use super::{GRAIN, LinkLoad, PriorityClass, Rates, Slot, WaterLevel};
use crate::r2c2::weights::LinkShare;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Working memory of the water-filling. It is empty between calls but stays allocated.
#[derive(Debug, Clone)]
pub(super) struct FillMemory {
    waiting: WaitingChanges,
    /// Rising flows that reach their maximum rates (tops) before any of their links can fill, ordered by the water level at which they do
    /// so.
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

/// Capacity of the links that is available to a priority class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClassCapacity {
    /// The whole capacity of each link, because the class is served first.
    All,
    /// The capacity that the preceding classes have left.
    Left,
}

impl Rates {
    /// Computes the rates again, starting with the first priority class that has changes. `from` returns the water level of a class below
    /// which its settled rates remain valid.
    pub(super) fn settle_from(&mut self, from: impl Fn(&PriorityClass) -> WaterLevel) {
        self.watch();
        let mut classes = std::mem::take(&mut self.classes);
        let first = classes.values().position(|class| from(class) < WaterLevel::NEVER);
        if let Some(first) = first {
            // This class may take capacity from the later classes, so their rates are computed from scratch.
            for class in classes.values_mut().skip(first.max(1)) {
                self.release(class);
            }
            for (n, class) in classes.values_mut().enumerate().skip(first) {
                // Only for the first class, which is served before all others, are the lowest levels at which links fill known in advance.
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

    /// Returns the capacity that the flows of a class hold to their links, and marks these flows as fresh, so that their rates rise again.
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

    /// Reopens those flows of the first class whose rates were settled at this water level or above: they return their capacity to their
    /// links, and their rates rise again.
    fn reopen(&mut self, class: &mut PriorityClass, from: WaterLevel) {
        self.forget_the_gone(class);
        let kept = class.settled.partition_point(|(slot, _)| self.marks[*slot as usize].level < from);
        let entries = |flows: &[(Slot, u32)]| -> usize {
            flows.iter().map(|(slot, _)| self.flows[*slot as usize].watched().len()).sum()
        };
        // Two methods give the same result: subtract the flows that change from the loads, or add the flows that stay to empty links. The
        // method that touches fewer entries is used.
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

    /// Opens a flow, so that its rate rises. If none of the flow's links can fill before the flow reaches its top, the top is the only
    /// limit; otherwise the rate rises until a link is full.
    fn open(&mut self, class: &PriorityClass, slot: Slot, room: ClassCapacity) {
        let flow = &self.flows[slot as usize];
        self.marks[slot as usize].level = WaterLevel::RISING;
        self.space.rising += 1;
        if flow.top.link.is_none_or(|link| !self.may_fill(class, link, room)) {
            self.space.limited.push(Reverse((WaterLevel::of_top(flow.asked, flow.top), slot)));
        }
    }

    /// Returns whether a link has too little capacity for all flows of a priority class at their maximum rates (tops). With
    /// `ClassCapacity::Left`, the result is valid only as long as no rate of the class is settled.
    fn may_fill(&self, class: &PriorityClass, link: u32, room: ClassCapacity) -> bool {
        let room = match room {
            ClassCapacity::All => self.capacity[link as usize],
            ClassCapacity::Left => self.loads[link as usize].left,
        };
        class.uses[link as usize].tops > room >> GRAIN
    }

    /// Raises the rates of the open flows of a class until all of them are settled.
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

    /// Processes events in the order of their water levels. An event is that a link becomes full, or that a flow reaches its top.
    fn rise(&mut self, class: &mut PriorityClass, mut now: WaterLevel) {
        while self.space.rising > 0 {
            // When the rates of some flows are settled, more capacity is left for the flows that are still rising.
            let level = |link: u32| {
                let LinkLoad { left, rising } = self.loads[link as usize];
                (rising > 0).then(|| WaterLevel::saturating(left, rising))
            };
            let link = self.space.waiting.first(level);
            let flow = self.space.limited.peek().map(|Reverse(flow)| *flow);
            match (flow, link) {
                // At the same level, full links are processed before flows that reach their tops. Otherwise the rate of a flow would depend
                // on the order of the links that may fill.
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

    /// Settles the rates of all rising flows that cross a full link.
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

/// Subtracts the rate of a flow from the free capacity of its links, and its weight from the weights that rise on these links.
fn take(loads: &mut [LinkLoad], shares: &[LinkShare], [rate, weight]: [u32; 2]) {
    for LinkShare { link, share } in shares {
        let load = &mut loads[*link as usize];
        load.left -= u64::from(*share) * u64::from(rate);
        load.rising -= u64::from(*share) * u64::from(weight);
    }
}

/// Adds the rate of a flow to the free capacity of its links again, and its weight to the weights that rise on these links.
fn give_back(loads: &mut [LinkLoad], shares: &[LinkShare], [rate, weight]: [u32; 2]) {
    for LinkShare { link, share } in shares {
        let load = &mut loads[*link as usize];
        load.left += u64::from(*share) * u64::from(rate);
        load.rising += u64::from(*share) * u64::from(weight);
    }
}
