//! Rates of all flows: weighted water-filling over the links that they use (§3.3.1), in rounds by priority (§3.3.2).
//!
//! The rates of flows rise together, each by its weight, until a link is full or a flow has all it can use: then the
//! flows concerned keep the rate they have. What is left of each link goes to the next priority. A flow whose ways
//! cross a link with a share of 1/2 takes half of its rate there.
//!
//! - **Whole numbers.** Rates and levels are Kb/s and shares a fraction of [`Share::ONE`], so that what flows take of a
//!   link is added and taken away exactly: however often that happens, no link is promised more than it has, and all
//!   nodes come to the same rates.
//! - **Only what changes.** Flows are kept in the order in which their rates were settled. What came before a change
//!   could matter stays; the rest is settled again. The result is that of starting anew, to the bit.

mod fill;
mod waiting;

use self::fill::Space;
use super::weights::Share;
use std::collections::BTreeMap;
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
    /// What flows may take of each link: in Kb/s by [`Share::ONE`].
    capacity: Vec<u64>,
    links: Vec<Link>,
    flows: Vec<Flow>,
    marks: Vec<Mark>,
    free: Vec<Slot>,
    /// By link, who uses it; and some that did.
    users: Vec<Vec<(Slot, u32)>>,
    classes: BTreeMap<u8, Class>,
    space: Space,
}

/// A link while rates rise. Both change together, and side by side one instruction does both.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// What flows do not take of it.
    left: u64,
    /// The weights of those whose rates rise there. 0 between calls.
    rising: u64,
}

/// Flows of one priority.
#[derive(Debug, Clone, Default)]
struct Class {
    /// As their rates were settled, with their serial numbers: those that are gone may still be named.
    settled: Vec<(Slot, u32)>,
    fresh: Vec<(Slot, u32)>,
    links: Vec<Use>,
    /// The links that its flows use, in no order.
    used: Vec<u32>,
    /// Nothing changes before this level.
    from: Level,
    members: u32,
}

/// How the flows of a class use a link.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Of all of them.
    weights: u64,
    /// No flow of it is settled later: since somebody uses it.
    most: u32,
    /// Its place among those that are used.
    place: u32,
}

#[derive(Debug, Clone)]
struct Flow {
    asked: Asked,
    shares: Arc<[Share]>,
    rate_kbps: u32,
}

/// What is looked at most of a flow.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Tells it from others that had its slot. Even: the slot is free.
    serial: u32,
    /// At which its rate was settled, if it was.
    level: Level,
}

/// Kb/s for a weight of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Level(u32);

impl Default for Level {
    fn default() -> Level {
        Level::NEVER
    }
}

impl Level {
    const ZERO: Level = Level(0);
    const MOST: Level = Level(u32::MAX - 2);
    /// Of a flow whose rate rises.
    const RISING: Level = Level(u32::MAX - 1);
    /// Of a flow whose turn to rise has not come; of changes, that there are none.
    const NEVER: Level = Level(u32::MAX);

    /// At which what is left of a link is used up.
    fn of(left: u64, weights: u64) -> Level {
        Level((left / weights).min(u64::from(Level::MOST.0)) as u32)
    }

    /// At which a flow has all that it can use.
    fn of_demand(asked: Asked) -> Level {
        Level(asked.demand_kbps.div_ceil(u32::from(asked.weight)).min(Level::MOST.0))
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
            links: capacity.iter().map(|capacity| Link { left: *capacity, rising: 0 }).collect(),
            users: vec![Vec::new(); capacity.len()],
            capacity,
            flows: Vec::new(),
            marks: Vec::new(),
            free: Vec::new(),
            classes: BTreeMap::new(),
            space: Space::new(links),
        }
    }

    /// A flow that crosses these links, each with a share above 0. Its rate is known after the next [`Rates::settle`].
    ///
    /// # Panics
    /// If its weight is 0.
    pub fn add(&mut self, asked: Asked, shares: Arc<[Share]>) -> Slot {
        assert!(asked.weight > 0, "a flow of weight 0 would never send");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow { asked, shares: Arc::default(), rate_kbps: 0 });
            self.marks.push(Mark { serial: 0, level: Level::NEVER });
            self.flows.len() as Slot - 1
        });
        let serial = self.marks[slot as usize].serial.wrapping_add(1);
        self.marks[slot as usize] = Mark { serial, level: Level::NEVER };
        let class = self.classes.entry(asked.priority).or_default();
        class.links.resize(self.capacity.len(), Use::default());
        // Which link is the first to fill, of this flow alone, and if all flows rise all the time: found by real numbers,
        // which are much faster, and then a little lower or higher than found.
        let (mut alone, mut together) = (f64::INFINITY, f64::INFINITY);
        for Share { link, share } in &*shares {
            let at = *link as usize;
            let users = &mut self.users[at];
            if users.len() == users.capacity() {
                users.retain(|(slot, serial)| self.marks[*slot as usize].serial == *serial);
            }
            users.push((slot, serial));
            let weight = u64::from(*share) * u64::from(asked.weight);
            let uses = &mut class.links[at];
            if uses.weights == 0 {
                *uses = Use { place: class.used.len() as u32, ..Use::default() };
                class.used.push(*link);
            }
            uses.weights += weight;
            let capacity = self.capacity[at] as f64;
            alone = alone.min(capacity / weight as f64);
            together = together.min(capacity / uses.weights as f64);
        }
        class.from = match shares.is_empty() {
            true => Level::ZERO,
            false => class.from.min(Level((together * (1.0 - NEAR)).min(f64::from(Level::MOST.0)) as u32)),
        };
        let most = Level((alone * (1.0 + NEAR) + 1.0).min(f64::from(Level::MOST.0)) as u32);
        let most = if asked.demand_kbps < UNLIMITED { most.min(Level::of_demand(asked)) } else { most };
        for Share { link, .. } in &*shares {
            let uses = &mut class.links[*link as usize];
            uses.most = uses.most.max(most.0);
        }
        class.fresh.push((slot, serial));
        class.members += 1;
        self.flows[slot as usize] = Flow { asked, shares, rate_kbps: 0 };
        slot
    }

    /// The flow is over.
    pub fn remove(&mut self, slot: Slot) {
        let (flow, mark) = (&mut self.flows[slot as usize], &mut self.marks[slot as usize]);
        debug_assert!(mark.serial % 2 == 1, "a slot that is free");
        mark.serial = mark.serial.wrapping_add(1);
        let class = self.classes.get_mut(&flow.asked.priority).expect("the class of a flow is there");
        for Share { link, share } in &*std::mem::take(&mut flow.shares) {
            let at = *link as usize;
            self.links[at].left += u64::from(*share) * u64::from(flow.rate_kbps);
            let uses = &mut class.links[at];
            uses.weights -= u64::from(*share) * u64::from(flow.asked.weight);
            if uses.weights == 0 {
                let place = uses.place;
                class.used.swap_remove(place as usize);
                if let Some(moved) = class.used.get(place as usize) {
                    class.links[*moved as usize].place = place;
                }
            }
        }
        class.from = class.from.min(mark.level);
        class.members -= 1;
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
        let link = link as usize;
        (self.capacity[link] - self.links[link].left) as f64 / f64::from(Share::ONE)
    }

    /// Settles the rates of all flows.
    pub fn settle(&mut self) {
        self.settle_from(|class| class.from);
    }

    /// The same, from the beginning.
    pub fn settle_anew(&mut self) {
        self.settle_from(|_| Level::ZERO);
    }
}

/// What real numbers may be wrong by, and more.
const NEAR: f64 = 1e-9;

#[cfg(test)]
mod tests;
