//! Settling: the rates of one class after the other rise, until links are full.

use super::waiting::Waiting;
use super::{Class, Flow, Level, Link, Rates, Slot};
use crate::r2c2::weights::Share;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is empty between calls, and keeps its memory.
#[derive(Debug, Clone)]
pub(super) struct Space {
    waiting: Waiting,
    /// Flows, by the level at which they have all that they can use.
    limited: BinaryHeap<Reverse<(Level, Slot)>>,
    /// Flows whose rates rise.
    rising: u32,
}

impl Space {
    pub fn new(links: usize) -> Space {
        Space { waiting: Waiting::new(links), limited: BinaryHeap::new(), rising: 0 }
    }
}

impl Rates {
    /// `from` says where to begin with a class if nothing is served before it.
    pub(super) fn settle_from(&mut self, from: impl Fn(&Class) -> Level) {
        let mut classes = std::mem::take(&mut self.classes);
        let first = classes.values().position(|class| from(class) < Level::NEVER);
        if let Some(first) = first {
            // What a class takes, those after it cannot have: they begin anew.
            for class in classes.values_mut().skip(first + 1) {
                self.release(class);
            }
            for (n, class) in classes.values_mut().enumerate().skip(first) {
                // How soon links fill is known only where nobody was served before.
                match n {
                    0 => self.reopen(class, from(class)),
                    _ if n == first => self.reopen_after_others(class),
                    _ => self.open_fresh(class),
                }
                self.fill(class);
            }
        }
        self.classes = classes;
        self.classes.retain(|_, class| class.members > 0);
    }

    fn forget_the_gone(&self, class: &mut Class) {
        let is_there = |(slot, serial): &(Slot, u32)| self.marks[*slot as usize].serial == *serial;
        class.settled.retain(is_there);
        class.fresh.retain(is_there);
    }

    /// All flows of a class give back what they took, and wait.
    fn release(&mut self, class: &mut Class) {
        self.forget_the_gone(class);
        for (slot, _) in &class.settled {
            let flow = &mut self.flows[*slot as usize];
            give_back(&mut self.links, &flow.shares, [flow.rate_kbps, 0]);
            flow.rate_kbps = 0;
            self.marks[*slot as usize].level = Level::NEVER;
        }
        class.fresh.append(&mut class.settled);
    }

    fn reopen_after_others(&mut self, class: &mut Class) {
        self.release(class);
        self.open_fresh(class);
    }

    /// The flows of the first class that were settled at this level or above give back what they took, and rise.
    fn reopen(&mut self, class: &mut Class, from: Level) {
        self.forget_the_gone(class);
        let kept = class.settled.partition_point(|(slot, _)| self.marks[*slot as usize].level < from);
        let entries = |flows: &[(Slot, u32)]| -> usize {
            flows.iter().map(|(slot, _)| self.flows[*slot as usize].shares.len()).sum()
        };
        // Either way leads to the same: what changes is changed back, or what stays is put on empty links.
        let (stay, change) = class.settled.split_at(kept);
        if entries(change) + entries(&class.fresh) <= self.links.len() + entries(stay) {
            for (slot, _) in class.settled.drain(kept..) {
                let flow = &self.flows[slot as usize];
                give_back(&mut self.links, &flow.shares, [flow.rate_kbps, flow.asked.weight.into()]);
                open(&mut self.space, &mut self.marks[slot as usize].level, flow, slot);
            }
            return self.open_fresh(class);
        }
        for ((link, capacity), uses) in self.links.iter_mut().zip(&self.capacity).zip(&class.links) {
            *link = Link { left: *capacity, rising: uses.weights };
        }
        for (slot, _) in stay {
            let Flow { shares, rate_kbps, asked, .. } = &self.flows[*slot as usize];
            take(&mut self.links, shares, [*rate_kbps, asked.weight.into()]);
        }
        for (slot, _) in class.settled.drain(kept..).chain(class.fresh.drain(..)) {
            open(&mut self.space, &mut self.marks[slot as usize].level, &self.flows[slot as usize], slot);
        }
    }

    /// The rates of all that are fresh rise.
    fn open_fresh(&mut self, class: &mut Class) {
        for (slot, _) in class.fresh.drain(..) {
            let flow = &self.flows[slot as usize];
            give_back(&mut self.links, &flow.shares, [0, flow.asked.weight.into()]);
            open(&mut self.space, &mut self.marks[slot as usize].level, flow, slot);
        }
    }

    /// Raises the rates of those that are open until all are settled.
    fn fill(&mut self, class: &mut Class) {
        for link in &class.used {
            let Link { left, rising } = self.links[*link as usize];
            let beyond = u128::from(class.links[*link as usize].most) + 1;
            // Not those that are full only at a level that nobody comes to there.
            if u128::from(left) < beyond * u128::from(rising) {
                self.space.waiting.push(Level::of(left, rising), *link);
            }
        }
        let last = class.settled.last().map_or(Level::ZERO, |(slot, _)| self.marks[*slot as usize].level);
        self.rise(class, last);
        debug_assert!(class.used.iter().all(|link| self.links[*link as usize].rising == 0));
        self.space.waiting.clear();
        self.space.limited.clear();
        class.from = Level::NEVER;
    }

    /// One event after the other: a flow has all that it can use, or a link is full.
    fn rise(&mut self, class: &mut Class, mut now: Level) {
        while self.space.rising > 0 {
            // As others are settled, there is more left for those that rise.
            let level = |link: u32| {
                let Link { left, rising } = self.links[link as usize];
                (rising > 0).then(|| Level::of(left, rising))
            };
            let link = self.space.waiting.first(level);
            let flow = self.space.limited.peek().map(|Reverse(flow)| *flow);
            match (flow, link) {
                (Some((level, slot)), link) if link.is_none_or(|link| level <= link.0) => {
                    self.space.limited.pop();
                    if self.marks[slot as usize].level == Level::RISING {
                        now = now.max(level);
                        self.settle_flow(class, slot, now);
                    }
                }
                (_, Some((level, link))) => {
                    now = now.max(level);
                    self.settle_link(class, link, now);
                }
                (_, None) => unreachable!("a flow that rises is on a link that fills, or limited"),
            }
        }
    }

    /// A link is full: the rates of all who use it are settled.
    fn settle_link(&mut self, class: &mut Class, link: u32, now: Level) {
        let mut users = std::mem::take(&mut self.users[link as usize]);
        users.retain(|(slot, serial)| {
            let mark = self.marks[*slot as usize];
            let is_there = mark.serial == *serial;
            if is_there && mark.level == Level::RISING {
                self.settle_flow(class, *slot, now);
            }
            is_there
        });
        self.users[link as usize] = users;
    }

    fn settle_flow(&mut self, class: &mut Class, slot: Slot, now: Level) {
        let (flow, mark) = (&mut self.flows[slot as usize], &mut self.marks[slot as usize]);
        flow.rate_kbps = match flow.shares.is_empty() {
            true => flow.asked.demand_kbps,
            false => now.0.saturating_mul(flow.asked.weight.into()).min(flow.asked.demand_kbps),
        };
        mark.level = now;
        take(&mut self.links, &flow.shares, [flow.rate_kbps, flow.asked.weight.into()]);
        class.settled.push((slot, mark.serial));
        self.space.rising -= 1;
    }
}

fn open(space: &mut Space, level: &mut Level, flow: &Flow, slot: Slot) {
    *level = Level::RISING;
    space.rising += 1;
    if flow.asked.demand_kbps < super::UNLIMITED || flow.shares.is_empty() {
        space.limited.push(Reverse((Level::of_demand(flow.asked), slot)));
    }
}

/// Rate and weight of a flow, off its links.
fn take(links: &mut [Link], shares: &[Share], [rate, weight]: [u32; 2]) {
    for Share { link, share } in shares {
        let link = &mut links[*link as usize];
        link.left -= u64::from(*share) * u64::from(rate);
        link.rising -= u64::from(*share) * u64::from(weight);
    }
}

/// The opposite for the rate: the weight is added, too.
fn give_back(links: &mut [Link], shares: &[Share], [rate, weight]: [u32; 2]) {
    for Share { link, share } in shares {
        let link = &mut links[*link as usize];
        link.left += u64::from(*share) * u64::from(rate);
        link.rising += u64::from(*share) * u64::from(weight);
    }
}
