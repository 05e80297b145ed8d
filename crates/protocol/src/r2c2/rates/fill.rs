//! Settling: the rates of one class after the other rise, until links are full.

use super::waiting::Waiting;
use super::{Class, GRAIN, Level, Load, Rates, Slot};
use crate::r2c2::weights::Share;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is empty between calls, and keeps its memory.
#[derive(Debug, Clone)]
pub(super) struct Space {
    waiting: Waiting,
    /// Flows, by the level at which they have their top.
    limited: BinaryHeap<Reverse<(Level, Slot)>>,
    /// Flows whose rates rise.
    rising: u32,
}

impl Space {
    pub fn new(links: usize) -> Space {
        Space { waiting: Waiting::new(links), limited: BinaryHeap::new(), rising: 0 }
    }
}

/// What a class finds of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// All: it is the first.
    All,
    /// What the classes before it leave.
    Left,
}

impl Rates {
    /// `from` says where to begin with a class if nothing is served before it.
    pub(super) fn settle_from(&mut self, from: impl Fn(&Class) -> Level) {
        self.watch();
        let mut classes = std::mem::take(&mut self.classes);
        let first = classes.values().position(|class| from(class) < Level::NEVER);
        if let Some(first) = first {
            // What a class takes, those after it cannot have: they begin anew.
            for class in classes.values_mut().skip(first.max(1)) {
                self.release(class);
            }
            for (n, class) in classes.values_mut().enumerate().skip(first) {
                // How soon links fill is known only where nobody was served before.
                match n {
                    0 => self.reopen(class, from(class)),
                    _ => self.open_fresh(class, Room::Left),
                }
                self.fill(class, if n == 0 { Room::All } else { Room::Left });
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
            give_back(&mut self.loads, flow.watched(), [flow.rate_kbps, 0]);
            flow.rate_kbps = 0;
            self.marks[*slot as usize].level = Level::NEVER;
        }
        class.fresh.append(&mut class.settled);
    }

    /// The flows of the first class that were settled at this level or above give back what they took, and rise.
    fn reopen(&mut self, class: &mut Class, from: Level) {
        self.forget_the_gone(class);
        let kept = class.settled.partition_point(|(slot, _)| self.marks[*slot as usize].level < from);
        let entries = |flows: &[(Slot, u32)]| -> usize {
            flows.iter().map(|(slot, _)| self.flows[*slot as usize].watched().len()).sum()
        };
        // Either way leads to the same: what changes is changed back, or what stays is put on empty links.
        let (stay, change) = class.settled.split_at(kept);
        if entries(change) + entries(&class.fresh) <= self.watched.len() + entries(stay) {
            for (slot, _) in &class.settled[kept..] {
                let flow = &self.flows[*slot as usize];
                give_back(&mut self.loads, flow.watched(), [flow.rate_kbps, flow.asked.weight.into()]);
                self.open(class, *slot, Room::All);
            }
            class.settled.truncate(kept);
            return self.open_fresh(class, Room::All);
        }
        for link in self.watched.iter().map(|link| *link as usize) {
            self.loads[link] = Load { left: self.capacity[link], rising: class.uses[link].weights };
        }
        for (slot, _) in stay {
            let flow = &self.flows[*slot as usize];
            take(&mut self.loads, flow.watched(), [flow.rate_kbps, flow.asked.weight.into()]);
        }
        for (slot, _) in class.settled[kept..].iter().chain(&class.fresh) {
            self.open(class, *slot, Room::All);
        }
        class.settled.truncate(kept);
        class.fresh.clear();
    }

    /// The rates of all that are fresh rise.
    fn open_fresh(&mut self, class: &mut Class, room: Room) {
        for (slot, _) in std::mem::take(&mut class.fresh) {
            let flow = &self.flows[slot as usize];
            give_back(&mut self.loads, flow.watched(), [0, flow.asked.weight.into()]);
            self.open(class, slot, room);
        }
    }

    /// The rate of a flow rises from now on: until a link is full, or to its top, if nothing is full by then for certain.
    fn open(&mut self, class: &Class, slot: Slot, room: Room) {
        let flow = &self.flows[slot as usize];
        self.marks[slot as usize].level = Level::RISING;
        self.space.rising += 1;
        if flow.top.link.is_none_or(|link| !self.may_fill(class, link, room)) {
            self.space.limited.push(Reverse((Level::of_top(flow.asked, flow.top), slot)));
        }
    }

    /// Whether a link has too little room for all flows of a class at their tops. To be asked before any is settled, if
    /// there are classes before it.
    fn may_fill(&self, class: &Class, link: u32, room: Room) -> bool {
        let room = match room {
            Room::All => self.capacity[link as usize],
            Room::Left => self.loads[link as usize].left,
        };
        class.uses[link as usize].tops > room >> GRAIN
    }

    /// Raises the rates of those that are open until all are settled.
    fn fill(&mut self, class: &mut Class, room: Room) {
        for link in &self.watched {
            let Load { left, rising } = self.loads[*link as usize];
            if rising > 0 && self.may_fill(class, *link, room) {
                self.space.waiting.push(Level::of(left, rising), *link);
            }
        }
        let last = class.settled.last().map_or(Level::ZERO, |(slot, _)| self.marks[*slot as usize].level);
        self.rise(class, last);
        debug_assert!(self.watched.iter().all(|link| self.loads[*link as usize].rising == 0));
        self.space.waiting.clear();
        self.space.limited.clear();
        class.from = Level::NEVER;
    }

    /// One event after the other: a link is full, or a flow has its top.
    fn rise(&mut self, class: &mut Class, mut now: Level) {
        while self.space.rising > 0 {
            // As others are settled, there is more left for those that rise.
            let level = |link: u32| {
                let Load { left, rising } = self.loads[link as usize];
                (rising > 0).then(|| Level::of(left, rising))
            };
            let link = self.space.waiting.first(level);
            let flow = self.space.limited.peek().map(|Reverse(flow)| *flow);
            match (flow, link) {
                // At the same level links are first: then it does not matter which of them may fill a flow's.
                (Some((level, slot)), link) if link.is_none_or(|link| level < link.0) => {
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
                (_, None) => unreachable!("a flow that rises is on a link that may fill, or limited"),
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
        flow.rate_kbps = now.0.saturating_mul(flow.asked.weight.into()).min(flow.top.kbps);
        mark.level = now;
        take(&mut self.loads, flow.watched(), [flow.rate_kbps, flow.asked.weight.into()]);
        class.settled.push((slot, mark.serial));
        self.space.rising -= 1;
    }
}

/// Rate and weight of a flow, off its links.
fn take(loads: &mut [Load], shares: &[Share], [rate, weight]: [u32; 2]) {
    for Share { link, share } in shares {
        let load = &mut loads[*link as usize];
        load.left -= u64::from(*share) * u64::from(rate);
        load.rising -= u64::from(*share) * u64::from(weight);
    }
}

/// The opposite for the rate: the weight is added, too.
fn give_back(loads: &mut [Load], shares: &[Share], [rate, weight]: [u32; 2]) {
    for Share { link, share } in shares {
        let load = &mut loads[*link as usize];
        load.left += u64::from(*share) * u64::from(rate);
        load.rising += u64::from(*share) * u64::from(weight);
    }
}
