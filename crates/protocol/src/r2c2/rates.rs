//! Rates of all flows: weighted water-filling over the links that they use (§3.3.1), in rounds by priority (§3.3.2).
//!
//! The rates of flows rise together, each by its weight, until a link is full or a flow has all it can use: then the
//! flows concerned keep the rate they have. What is left of each link goes to the next priority. A flow whose ways
//! cross a link with a share of 1/2 takes half of its rate there.
//!
//! - **Whole numbers.** Rates are Kb/s and shares a fraction of [`Share::ONE`], so that what flows take of a link is
//!   added and taken away exactly: however often that happens, no link is promised more than it has, and all nodes come
//!   to the same rates.
//! - **Only what changes.** Flows are kept in the order in which their rates were settled. What came before a change
//!   could matter stays; the rest is settled again. The result is that of starting anew, to the bit.

use super::weights::Share;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use unrack_units::Rate;

/// Names a flow from [`Rates::add`] until [`Rates::remove`].
pub type Slot = u32;

/// What a flow asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its part of what is shared, relative to others. Not 0.
    pub weight: u8,
    /// 0 is served first.
    pub priority: u8,
    /// What it can use, in Kb/s. [`UNLIMITED`]: all there is.
    pub demand_kbps: u32,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked { weight: 1, priority: 0, demand_kbps: UNLIMITED }
    }
}

/// As a demand, more than any link has: 4 Tb/s (§4.2).
pub const UNLIMITED: u32 = u32::MAX;

/// The rates of flows over links.
#[derive(Debug, Clone)]
pub struct Rates {
    /// What flows may take of each link, and what they take: in Kb/s by [`Share::ONE`].
    capacity: Vec<u64>,
    taken: Vec<u64>,
    flows: Vec<Flow>,
    free: Vec<Slot>,
    /// By link, who uses it; those that are gone are dropped when they are met.
    users: Vec<Vec<(Slot, u32)>>,
    classes: BTreeMap<u8, Class>,
    /// Work space, all zero between calls: by link, the weights of those whose rates rise.
    rising: Vec<u64>,
    touched: Vec<u32>,
    full: BinaryHeap<Reverse<(Level, u32)>>,
}

/// Flows of one priority.
#[derive(Debug, Clone, Default)]
struct Class {
    priority: u8,
    /// As their rates were settled, with their serial numbers: those that are gone may still be named.
    settled: Vec<(Slot, u32)>,
    fresh: Vec<(Slot, u32)>,
    /// By link, the weights of all its flows.
    weights: Vec<u64>,
    /// Nothing changes before this level.
    from: Level,
    members: u32,
}

#[derive(Debug, Clone)]
struct Flow {
    /// Tells it from others that had its slot. Even: the slot is free.
    serial: u32,
    asked: Asked,
    shares: Arc<[Share]>,
    rate_kbps: u32,
    /// At which its rate was settled. [`Level::RISING`]: it is not.
    level: Level,
}

/// Kb/s for a weight of one: a number that is not negative, in the order of its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Level(u64);

impl Default for Level {
    fn default() -> Level {
        Level::NEVER
    }
}

impl Level {
    const ZERO: Level = Level(0);
    const NEVER: Level = Level(f64::INFINITY.to_bits());
    const RISING: Level = Level(u64::MAX);

    /// At which what is left of a link is used up.
    fn of(left: u64, weights: u64) -> Level {
        Level((left as f64 / weights as f64).to_bits())
    }

    fn kbps(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Rates {
    /// For links of these rates, of which this share stays free (§3.3.2: the headroom).
    pub fn new(links: impl IntoIterator<Item = Rate>, headroom: f64) -> Rates {
        let usable = |rate: Rate| {
            let kbps = (rate.as_bps() as f64 * (1.0 - headroom) / 1_000.0) as u64;
            kbps.min(u64::from(UNLIMITED)) * u64::from(Share::ONE)
        };
        let capacity: Vec<u64> = links.into_iter().map(usable).collect();
        let links = capacity.len();
        Rates {
            capacity,
            taken: vec![0; links],
            flows: Vec::new(),
            free: Vec::new(),
            users: vec![Vec::new(); links],
            classes: BTreeMap::new(),
            rising: vec![0; links],
            touched: Vec::new(),
            full: BinaryHeap::new(),
        }
    }

    /// A flow that crosses these links. Its rate is known after the next [`Rates::settle`].
    ///
    /// # Panics
    /// If its weight is 0.
    pub fn add(&mut self, asked: Asked, shares: Arc<[Share]>) -> Slot {
        assert!(asked.weight > 0, "a flow of weight 0 would never send");
        let slot = self.free.pop().unwrap_or_else(|| {
            let flow = Flow { serial: 0, asked, shares: Arc::default(), rate_kbps: 0, level: Level::RISING };
            self.flows.push(flow);
            self.flows.len() as Slot - 1
        });
        let serial = self.flows[slot as usize].serial + 1;
        let links = self.capacity.len();
        let class = self.classes.entry(asked.priority).or_default();
        class.priority = asked.priority;
        class.weights.resize(links, 0);
        for Share { link, share } in &*shares {
            self.users[*link as usize].push((slot, serial));
            let weights = &mut class.weights[*link as usize];
            *weights += u64::from(*share) * u64::from(asked.weight);
            // Links fill no faster than if all flows rose all the time.
            class.from = class.from.min(Level::of(self.capacity[*link as usize], *weights));
        }
        if shares.is_empty() {
            class.from = Level::ZERO;
        }
        class.fresh.push((slot, serial));
        class.members += 1;
        self.flows[slot as usize] = Flow { serial, asked, shares, rate_kbps: 0, level: Level::RISING };
        slot
    }

    /// The flow is over.
    pub fn remove(&mut self, slot: Slot) {
        let flow = &mut self.flows[slot as usize];
        debug_assert!(flow.serial % 2 == 1, "a slot that is free");
        flow.serial += 1;
        let class = self.classes.get_mut(&flow.asked.priority).expect("the class of a flow is there");
        for Share { link, share } in &*flow.shares {
            class.weights[*link as usize] -= u64::from(*share) * u64::from(flow.asked.weight);
            self.taken[*link as usize] -= u64::from(*share) * u64::from(flow.rate_kbps);
        }
        class.from = class.from.min(if flow.level == Level::RISING { Level::NEVER } else { flow.level });
        class.members -= 1;
        flow.shares = Arc::default();
        self.free.push(slot);
    }

    /// The flow asks for something else from now on.
    pub fn ask(&mut self, slot: Slot, asked: Asked) -> Slot {
        let shares = self.flows[slot as usize].shares.clone();
        self.remove(slot);
        let again = self.add(asked, shares);
        debug_assert_eq!(again, slot, "the slot that was freed last");
        again
    }

    /// As of the last [`Rates::settle`]; before the first, 0.
    pub fn kbps(&self, slot: Slot) -> u32 {
        self.flows[slot as usize].rate_kbps
    }

    pub fn asked(&self, slot: Slot) -> Asked {
        self.flows[slot as usize].asked
    }

    /// Flows that are there.
    pub fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What flows take of a link, in Kb/s.
    pub fn taken_kbps(&self, link: u32) -> f64 {
        self.taken[link as usize] as f64 / f64::from(Share::ONE)
    }

    /// Settles the rates of all flows.
    pub fn settle(&mut self) {
        self.settle_from(|class| class.from);
    }

    /// The same, from the beginning.
    pub fn settle_anew(&mut self) {
        self.settle_from(|_| Level::ZERO);
    }

    fn settle_from(&mut self, from: impl Fn(&Class) -> Level) {
        self.classes.retain(|_, class| class.members > 0 || class.from < Level::NEVER);
        let mut classes = std::mem::take(&mut self.classes);
        let first = classes.values().position(|class| from(class) < Level::NEVER);
        if let Some(first) = first {
            // What a class takes, those after it cannot have: they begin anew.
            for class in classes.values_mut().skip(first + 1) {
                self.unsettle(class, Level::ZERO);
            }
            for (n, class) in classes.values_mut().enumerate().skip(first) {
                if n == first {
                    // How soon links fill is known only where nobody was served before.
                    let level = if n == 0 { from(class) } else { Level::ZERO };
                    self.unsettle(class, level);
                }
                self.fill(class);
            }
        }
        self.classes = classes;
        self.classes.retain(|_, class| class.members > 0);
    }

    /// The flows of a class that were settled at this level or above give back what they took.
    fn unsettle(&mut self, class: &mut Class, from: Level) {
        let flows = &mut self.flows;
        class.settled.retain(|(slot, serial)| flows[*slot as usize].serial == *serial);
        class.fresh.retain(|(slot, serial)| flows[*slot as usize].serial == *serial);
        let kept = class.settled.partition_point(|(slot, _)| flows[*slot as usize].level < from);
        for (slot, serial) in class.settled.drain(kept..) {
            let flow = &mut flows[slot as usize];
            for Share { link, share } in &*flow.shares {
                self.taken[*link as usize] -= u64::from(*share) * u64::from(flow.rate_kbps);
            }
            (flow.rate_kbps, flow.level) = (0, Level::RISING);
            class.fresh.push((slot, serial));
        }
    }

    /// Raises the rates of the fresh flows of a class until all are settled.
    fn fill(&mut self, class: &mut Class) {
        let mut limited = BinaryHeap::new();
        for (slot, _) in &class.fresh {
            let Flow { asked, shares, .. } = &self.flows[*slot as usize];
            for Share { link, share } in &**shares {
                let rising = &mut self.rising[*link as usize];
                if *rising == 0 {
                    self.touched.push(*link);
                }
                *rising += u64::from(*share) * u64::from(asked.weight);
            }
            if asked.demand_kbps < UNLIMITED || shares.is_empty() {
                let level = Level::of(u64::from(asked.demand_kbps), u64::from(asked.weight));
                limited.push(Reverse((level, *slot)));
            }
        }
        let mut full = std::mem::take(&mut self.full).into_vec();
        full.extend(self.touched.iter().map(|link| Reverse((self.level_of(*link), *link))));
        self.full = BinaryHeap::from(full);
        let last = class.settled.last().map_or(Level::ZERO, |(slot, _)| self.flows[*slot as usize].level);
        class.fresh.clear();
        self.rise(class, &mut limited, last);
        self.touched.drain(..).for_each(|link| self.rising[link as usize] = 0);
        self.full.clear();
        class.from = Level::NEVER;
    }

    fn level_of(&self, link: u32) -> Level {
        let link = link as usize;
        Level::of(self.capacity[link] - self.taken[link], self.rising[link])
    }

    /// One event after the other: a flow has all that it can use, or a link is full.
    fn rise(&mut self, class: &mut Class, limited: &mut BinaryHeap<Reverse<(Level, Slot)>>, mut now: Level) {
        loop {
            let flow = limited.peek().map_or(Level::NEVER, |Reverse((level, _))| *level);
            let link = self.full.peek().map_or(Level::NEVER, |Reverse((level, _))| *level);
            if flow == Level::NEVER && link == Level::NEVER {
                return;
            }
            if flow <= link {
                let Some(Reverse((level, slot))) = limited.pop() else { return };
                if self.flows[slot as usize].level == Level::RISING {
                    now = now.max(level);
                    self.settle_flow(class, slot, now);
                }
                continue;
            }
            let Some(Reverse((level, link))) = self.full.pop() else { return };
            if self.rising[link as usize] == 0 {
                continue;
            }
            // Others were settled since: there is more left for those that rise.
            let actual = self.level_of(link);
            if actual > level {
                self.full.push(Reverse((actual, link)));
                continue;
            }
            now = now.max(actual);
            self.settle_link(class, link, now);
        }
    }

    /// A link is full: the rates of all who use it are settled.
    fn settle_link(&mut self, class: &mut Class, link: u32, now: Level) {
        let mut users = std::mem::take(&mut self.users[link as usize]);
        users.retain(|(slot, serial)| self.flows[*slot as usize].serial == *serial);
        for (slot, _) in &users {
            let flow = &self.flows[*slot as usize];
            if flow.level == Level::RISING && flow.asked.priority == class.priority {
                self.settle_flow(class, *slot, now);
            }
        }
        self.users[link as usize] = users;
    }

    fn settle_flow(&mut self, class: &mut Class, slot: Slot, now: Level) {
        let flow = &mut self.flows[slot as usize];
        let Asked { weight, demand_kbps, .. } = flow.asked;
        let mut rate = (now.kbps() * f64::from(weight)).min(f64::from(demand_kbps)) as u32;
        // The level is rounded, perhaps up; what a link has is not.
        let fits = |rate: u32| {
            flow.shares.iter().all(|Share { link, share }| {
                let link = *link as usize;
                self.taken[link] + u64::from(*share) * u64::from(rate) <= self.capacity[link]
            })
        };
        while rate > 0 && !fits(rate) {
            rate -= 1;
        }
        (flow.rate_kbps, flow.level) = (rate, now);
        for Share { link, share } in &*flow.shares {
            self.rising[*link as usize] -= u64::from(*share) * u64::from(weight);
            self.taken[*link as usize] += u64::from(*share) * u64::from(rate);
        }
        class.settled.push((slot, flow.serial));
    }
}

#[cfg(test)]
mod tests;
