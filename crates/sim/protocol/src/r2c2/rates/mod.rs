//! Computation of the rates of all flows, by weighted water-filling over the links that the flows use (§3.3.1). The priorities take turns,
//! the first one first (§3.3.2).
//!
//! The rates of all flows of one priority rise together, in proportion to their weights. A flow stops rising when one of its links is full
//! or when it reaches its demand; its rate is then *settled*. Once all flows of a priority have stopped, the remaining capacity of each
//! link is available to the next priority. A flow with a share of 1/2 on a link uses half of its rate on this link.
//!
//! - **Integers.** Rates and levels are in Kb/s, and shares are fractions of [`LinkShare::ONE`], so that a flow's use of a link can be
//!   added and subtracted exactly. However often flows are added and removed, the rates on a link never exceed its capacity, and all nodes
//!   compute the same rates.
//! - **Incremental.** Flows are kept in the order in which their rates were settled. When flows change, the rates that were settled before
//!   the change could have an effect stay valid, and only the rates after them are computed again. The result is bit for bit the same as
//!   after a computation from scratch.
//! - **Only links that can fill.** The *top* of a flow is the rate that it would have if it were the only flow: either its demand, or the
//!   rate at which it would fill one of its links. A link with enough capacity for all of its flows at their tops limits no flow, therefore
//!   its load is not computed. Once a link lacks this capacity, it is *watched*, which means that its load is computed, until no flow uses
//!   it any more.

mod fill;
mod trials;
mod waiting;

pub use self::trials::Trials;

use self::fill::FillMemory;
use super::weights::LinkShare;
use std::collections::BTreeMap;
use std::sync::Arc;
use unrack_units::Rate;

/// Handle of a flow from [`Rates::add`] until [`Rates::remove`].
pub type Slot = u32;

/// Requirements of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirements {
    /// Weight relative to other flows; not 0.
    pub weight: u8,
    /// Priority; 0 is served first.
    pub priority: u8,
    /// Demand in Kb/s, or [`UNLIMITED`].
    pub demand_kbps: u32,
}

impl Default for Requirements {
    fn default() -> Requirements {
        Requirements { weight: 1, priority: 0, demand_kbps: UNLIMITED }
    }
}

/// Value of an unlimited demand, in Kb/s: 4 Tb/s, which is more than the rate of any link (§4.2).
pub const UNLIMITED: u32 = u32::MAX;

/// Rates of flows over links.
#[derive(Debug, Clone)]
pub struct Rates {
    /// Capacity of each link that flows may use, in Kb/s times [`LinkShare::ONE`]. The next field has the reciprocals of these capacities.
    capacity: Arc<[u64]>,
    inverse: Arc<[f64]>,
    /// Whether all links have equal capacity.
    is_even: bool,
    /// For each link, the capacity that would be left if all of its flows had their maximum rates (tops).
    rooms: Vec<LinkRoom>,
    watches: Vec<LinkWatch>,
    /// For each link, whether the link is newly watched, so that the flows that use it have not recorded this yet. All `false` between
    /// calls.
    is_new: Vec<bool>,
    /// Watched links, in no particular order. The next field has the links that may have to be watched at the next computation.
    watched: Vec<u32>,
    soon: Vec<u32>,
    /// Load of each link. Only the entries of watched links are used.
    loads: Vec<LinkLoad>,
    /// For each watched link, the flows that use it, with their serial numbers. A list may still contain flows that were removed.
    users: Vec<Vec<(Slot, u32)>>,
    /// Scratch space of [`drafted`].
    draft: Vec<LinkShare>,
    flows: Vec<Flow>,
    marks: Vec<FlowMark>,
    free: Vec<Slot>,
    classes: BTreeMap<u8, PriorityClass>,
    space: FillMemory,
}

/// Capacity that a link would have left if all of its flows had their maximum rates (tops); negative if the link would be overloaded. For
/// most links, this is the only value that is touched when a flow is added or removed. The stored integer is twice this capacity, in the
/// units of [`tops`], plus one if the link is watched.
#[derive(Debug, Clone, Copy)]
struct LinkRoom(i64);

impl LinkRoom {
    fn from_capacity(capacity: u64) -> LinkRoom {
        LinkRoom((capacity >> GRAIN << 1) as i64)
    }

    fn is_watched(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns whether the link has enough capacity for all of its flows at their maximum rates (tops).
    fn is_enough(self) -> bool {
        self.0 >= 0
    }

    fn take(&mut self, tops: u64) {
        self.0 -= (tops << 1) as i64;
    }

    fn give_back(&mut self, tops: u64) {
        self.0 += (tops << 1) as i64;
    }
}

/// Bookkeeping of a watched link.
#[derive(Debug, Clone, Copy, Default)]
struct LinkWatch {
    /// Index in `Rates::watched`.
    place: u32,
    /// Number of flows that use it.
    users: u32,
}

/// Load of a link while rates rise. The two fields change together; they are adjacent so that one instruction can update both.
#[derive(Debug, Clone, Copy)]
struct LinkLoad {
    /// Capacity that no flow has taken.
    left: u64,
    /// Sum of weight times share over the flows that cross the link and whose rates are still rising. 0 between calls.
    rising: u64,
}

/// Flows of one priority.
#[derive(Debug, Clone, Default)]
struct PriorityClass {
    /// Flows in the order in which their rates were settled, with their serial numbers. The list may still contain flows that were removed.
    settled: Vec<(Slot, u32)>,
    fresh: Vec<(Slot, u32)>,
    /// For each link, its use by the flows of this priority. Only the entries of watched links are used.
    uses: Vec<LinkUse>,
    /// Water level below which the settled rates of this priority are still valid.
    from: WaterLevel,
    members: u32,
}

/// Use of a link by the flows of one priority: the capacity that they take for each Kb/s of the water level (`weights`), and the capacity
/// that they would take at their maximum rates (`tops`).
#[derive(Debug, Clone, Copy, Default)]
struct LinkUse {
    weights: u64,
    tops: u64,
}

impl LinkUse {
    fn add(&mut self, asked: Requirements, top: Top, share: u32) {
        self.weights += u64::from(share) * u64::from(asked.weight);
        self.tops += tops(share, top);
    }

    fn take(&mut self, asked: Requirements, top: Top, share: u32) {
        self.weights -= u64::from(share) * u64::from(asked.weight);
        self.tops -= tops(share, top);
    }
}

impl PriorityClass {
    /// Records that the flows of a link have changed. The link becomes full at the water level `1 / inverse` at the earliest, so rates that
    /// were settled below this level stay valid.
    fn fills_at(&mut self, inverse: f64) {
        // The level is rounded down a little, to be safe from floating-point errors.
        let level = (1.0 / inverse * (1.0 - NEAR)).min(f64::from(WaterLevel::MOST.0));
        self.from = self.from.min(WaterLevel(level as u32));
    }
}

#[derive(Debug, Clone, Default)]
struct Flow {
    asked: Requirements,
    shares: Arc<[LinkShare]>,
    /// The flow's shares of watched links; empty if all of the flow's links are watched.
    watched: Vec<LinkShare>,
    all_watched: bool,
    top: Top,
    rate_kbps: u32,
}

impl Flow {
    /// Returns the flow's shares of watched links.
    fn watched(&self) -> &[LinkShare] {
        if self.all_watched { &self.shares } else { &self.watched }
    }
}

/// Maximum rate of a flow, and whether a link or the flow's demand limits it.
#[derive(Debug, Clone, Copy, Default)]
struct Top {
    kbps: u32,
    /// Link that the flow would fill if it were the only flow, or `None` if the flow's demand limits its rate.
    link: Option<u32>,
}

/// Fields of a flow that are read most often.
#[derive(Debug, Clone, Copy)]
struct FlowMark {
    /// Serial number, which distinguishes the flow from earlier flows in the same slot. An even number means that the slot is free.
    serial: u32,
    /// Water level at which the rate of the flow was settled, if it was settled.
    level: WaterLevel,
}

/// Water level: the rate in Kb/s that a rising flow of weight 1 has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WaterLevel(u32);

impl Default for WaterLevel {
    fn default() -> WaterLevel {
        WaterLevel::NEVER
    }
}

impl WaterLevel {
    const ZERO: WaterLevel = WaterLevel(0);
    const MOST: WaterLevel = WaterLevel(u32::MAX - 2);
    /// Marks a flow whose rate rises.
    const RISING: WaterLevel = WaterLevel(u32::MAX - 1);
    /// As the level of a flow: the flow's rate has not been settled yet. As the level of a change: there was no change.
    const NEVER: WaterLevel = WaterLevel(u32::MAX);

    /// Returns the water level at which a link becomes full. `left` is its free capacity, and `weights` is the sum of weight times share of
    /// the flows that rise there.
    fn saturating(left: u64, weights: u64) -> WaterLevel {
        WaterLevel((left / weights).min(u64::from(WaterLevel::MOST.0)) as u32)
    }

    /// Returns the water level at which a flow reaches its maximum rate (top).
    fn of_top(asked: Requirements, top: Top) -> WaterLevel {
        WaterLevel(top.kbps.div_ceil(u32::from(asked.weight)).min(WaterLevel::MOST.0))
    }
}

impl Rates {
    /// Creates a table without flows for links with these rates. The fraction `headroom` of each link's rate stays free (§3.3.2).
    pub fn new(links: impl IntoIterator<Item = Rate>, headroom: f64) -> Rates {
        let usable = |rate: Rate| {
            let kbps = (rate.as_bps() as f64 * (1.0 - headroom) / 1_000.0) as u64;
            kbps.min(u64::from(UNLIMITED)) * u64::from(LinkShare::ONE)
        };
        let capacity: Arc<[u64]> = links.into_iter().map(usable).collect();
        Rates {
            inverse: capacity.iter().map(|capacity| 1.0 / *capacity as f64).collect(),
            is_even: capacity.iter().all(|of| *of == capacity[0]),
            loads: Vec::new(),
            rooms: Vec::new(),
            watches: Vec::new(),
            is_new: Vec::new(),
            watched: Vec::new(),
            soon: Vec::new(),
            users: Vec::new(),
            draft: Vec::new(),
            flows: Vec::new(),
            marks: Vec::new(),
            free: Vec::new(),
            classes: BTreeMap::new(),
            space: FillMemory::new(0),
            capacity,
        }
    }

    /// Allocates the tables that have an entry for each link, when the first flow is added: 77 B for each link.
    fn prepare(&mut self) {
        let links = self.capacity.len();
        if self.rooms.len() == links {
            return;
        }
        self.rooms = self.capacity.iter().map(|of| LinkRoom::from_capacity(*of)).collect();
        self.loads = self.capacity.iter().map(|of| LinkLoad { left: *of, rising: 0 }).collect();
        self.watches = vec![LinkWatch::default(); links];
        self.is_new = vec![false; links];
        self.users = vec![Vec::new(); links];
        self.space = FillMemory::new(links);
    }

    /// Returns the rate in Kb/s that a flow with these shares of links would get if it were the only flow. The result is [`UNLIMITED`] if
    /// the flow crosses no link.
    pub fn alone_kbps(&self, shares: &[LinkShare]) -> u32 {
        self.top(Requirements::default(), shares).kbps
    }

    fn top(&self, asked: Requirements, shares: &[LinkShare]) -> Top {
        // Floating point is much faster and narrows down which link fills first; integers then decide between links
        // that are nearly equal.
        match self.is_even {
            true => self.top_by(asked, shares, |_| self.inverse[0]),
            false => self.top_by(asked, shares, |link| self.inverse[link as usize]),
        }
    }

    fn top_by(&self, asked: Requirements, shares: &[LinkShare], inverse: impl Fn(u32) -> f64) -> Top {
        let need = |share: &LinkShare| f64::from(share.share) * inverse(share.link);
        let most = shares.iter().map(need).fold(0.0, |most, need| if need > most { need } else { most });
        let most = most * (1.0 - NEAR);
        let level = |LinkShare { link, share }: &LinkShare| {
            let weight = u64::from(*share) * u64::from(asked.weight);
            (WaterLevel::saturating(self.capacity[*link as usize], weight), *link)
        };
        let first = shares.iter().filter(|share| need(share) >= most).map(level).min();
        let alone = first.map_or(UNLIMITED, |(level, _)| level.0.saturating_mul(asked.weight.into()));
        match first {
            Some((_, link)) if alone <= asked.demand_kbps => Top { kbps: alone, link: Some(link) },
            _ => Top { kbps: asked.demand_kbps, link: None },
        }
    }

    /// Adds a flow that crosses these links, and returns its slot. Each share must be above 0. The rate of the flow is known after the next
    /// [`Rates::settle`].
    ///
    /// # Panics
    /// If its weight is 0.
    pub fn add(&mut self, asked: Requirements, shares: Arc<[LinkShare]>) -> Slot {
        assert!(asked.weight > 0, "a flow of weight 0 would never send");
        self.prepare();
        let top = self.top(asked, &shares);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.marks.push(FlowMark { serial: 0, level: WaterLevel::NEVER });
            self.flows.len() as Slot - 1
        });
        let serial = self.marks[slot as usize].serial.wrapping_add(1);
        self.marks[slot as usize] = FlowMark { serial, level: WaterLevel::NEVER };
        let draft = drafted(&mut self.draft, shares.len());
        let mut count = 0;
        for share in &*shares {
            let room = &mut self.rooms[share.link as usize];
            let was_enough = room.is_enough();
            room.take(tops(share.share, top));
            if was_enough && !room.is_enough() && !room.is_watched() {
                self.soon.push(share.link);
            }
            draft[count] = *share;
            count += usize::from(room.is_watched());
        }
        let all_watched = count == shares.len();
        let mut watched = std::mem::take(&mut self.flows[slot as usize].watched);
        if !all_watched {
            watched.extend_from_slice(&draft[..count]);
        }
        let flow = Flow { asked, shares, watched, all_watched, top, rate_kbps: 0 };
        let class = self.classes.entry(asked.priority).or_default();
        class.uses.resize(self.capacity.len(), LinkUse::default());
        // Reciprocal of the lowest level at which a link of the flow can fill. A link fills at its lowest level if no flow on it stops
        // rising before.
        let mut soonest = 0f64;
        for LinkShare { link, share } in flow.watched() {
            let at = *link as usize;
            class.uses[at].add(asked, top, *share);
            if class.uses[at].tops > self.capacity[at] >> GRAIN {
                soonest = soonest.max(class.uses[at].weights as f64 * self.inverse[at]);
            }
            self.watches[at].users += 1;
            let users = &mut self.users[at];
            if users.len() == users.capacity() {
                users.retain(|(slot, serial)| self.marks[*slot as usize].serial == *serial);
            }
            users.push((slot, serial));
        }
        class.fills_at(soonest);
        class.fresh.push((slot, serial));
        class.members += 1;
        self.flows[slot as usize] = flow;
        slot
    }

    /// Starts to watch (to compute the load of) the links that no longer have enough capacity for all of their flows at their maximum rates
    /// (tops).
    fn watch(&mut self) {
        let before = self.watched.len();
        for link in self.soon.drain(..) {
            let room = &mut self.rooms[link as usize];
            // `soon` may contain a link twice.
            if !room.is_enough() && !room.is_watched() {
                room.0 += 1;
                self.watches[link as usize] = LinkWatch { place: self.watched.len() as u32, users: 0 };
                self.is_new[link as usize] = true;
                self.watched.push(link);
            }
        }
        if self.watched.len() == before {
            return;
        }
        for (slot, (flow, mark)) in self.flows.iter_mut().zip(&self.marks).enumerate() {
            if flow.all_watched || mark.serial.is_multiple_of(2) {
                continue;
            }
            let Flow { asked, shares, watched, top, rate_kbps, .. } = flow;
            let class = self.classes.get_mut(&asked.priority).expect("the class of a flow is there");
            let draft = drafted(&mut self.draft, shares.len());
            let mut count = 0;
            for share in shares.iter() {
                draft[count] = *share;
                count += usize::from(self.is_new[share.link as usize]);
            }
            watched.extend_from_slice(&draft[..count]);
            for share in &draft[..count] {
                let at = share.link as usize;
                self.loads[at].left -= u64::from(share.share) * u64::from(*rate_kbps);
                class.uses[at].add(*asked, *top, share.share);
                self.watches[at].users += 1;
                self.users[at].push((slot as Slot, mark.serial));
            }
            if watched.len() == shares.len() {
                flow.all_watched = true;
                watched.clear();
            }
        }
        self.watched[before..].iter().for_each(|link| self.is_new[*link as usize] = false);
        for class in self.classes.values_mut() {
            let new = self.watched[before..].iter().map(|link| *link as usize);
            let may_fill = new.filter(|link| class.uses[*link].tops > self.capacity[*link] >> GRAIN);
            let soonest = may_fill.map(|link| class.uses[link].weights as f64 * self.inverse[link]);
            let soonest = soonest.fold(0.0, f64::max);
            if soonest > 0.0 {
                class.fills_at(soonest);
            }
        }
    }

    /// Removes a flow that has ended.
    pub fn remove(&mut self, slot: Slot) {
        let (flow, mark) = (&mut self.flows[slot as usize], &mut self.marks[slot as usize]);
        debug_assert!(mark.serial % 2 == 1, "a slot that is free");
        mark.serial = mark.serial.wrapping_add(1);
        let class = self.classes.get_mut(&flow.asked.priority).expect("the class of a flow is there");
        for LinkShare { link, share } in &*flow.shares {
            self.rooms[*link as usize].give_back(tops(*share, flow.top));
        }
        for LinkShare { link, share } in flow.watched() {
            let at = *link as usize;
            self.loads[at].left += u64::from(*share) * u64::from(flow.rate_kbps);
            class.uses[at].take(flow.asked, flow.top, *share);
            self.watches[at].users -= 1;
            if self.watches[at].users == 0 {
                self.users[at].clear();
                self.rooms[at].0 -= 1;
                let place = self.watches[at].place;
                self.watched.swap_remove(place as usize);
                if let Some(moved) = self.watched.get(place as usize) {
                    self.watches[*moved as usize].place = place;
                }
            }
        }
        flow.watched.clear();
        flow.shares = Arc::default();
        class.from = class.from.min(mark.level);
        class.members -= 1;
        self.free.push(slot);
    }

    /// Changes the requirements of a flow from now on. Its slot does not change.
    pub fn ask(&mut self, slot: Slot, asked: Requirements) -> Slot {
        let shares = self.flows[slot as usize].shares.clone();
        self.remove(slot);
        let again = self.add(asked, shares);
        debug_assert_eq!(again, slot, "the slot that was freed last");
        again
    }

    /// Returns the rate of a flow in Kb/s, as of the last [`Rates::settle`]. The rate is 0 if there was none since the flow was added.
    pub fn kbps(&self, slot: Slot) -> u32 {
        self.flows[slot as usize].rate_kbps
    }

    /// Returns the requirements of a flow.
    pub fn asked(&self, slot: Slot) -> Requirements {
        self.flows[slot as usize].asked
    }

    /// Returns the number of flows.
    pub fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Returns whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Settles the rates of all flows.
    pub fn settle(&mut self) {
        self.settle_from(|class| class.from);
    }

    /// Computes the rates of all flows from scratch.
    pub fn settle_anew(&mut self) {
        self.settle_from(|_| WaterLevel::ZERO);
    }
}

/// Returns scratch space for `count` shares. The caller uses it to select some shares of a list without a branch, which would be
/// mispredicted too often. The caller writes every share to the scratch space, and each share overwrites the previous one unless the
/// previous one was selected.
fn drafted(draft: &mut Vec<LinkShare>, count: usize) -> &mut [LinkShare] {
    draft.resize(count.max(draft.len()), LinkShare { link: 0, share: 0 });
    draft
}

/// Returns the capacity of a link that a flow takes at its maximum rate (top), rounded up. The unit is so large that the sum over thousands
/// of flows fits into 64 bits.
fn tops(share: u32, top: Top) -> u64 {
    (u64::from(share) * u64::from(top.kbps)).div_ceil(1 << GRAIN)
}

/// Binary logarithm of the unit of [`tops`].
const GRAIN: u32 = 20;

/// Relative tolerance that exceeds floating-point errors.
const NEAR: f64 = 1e-9;

#[cfg(test)]
mod tests;
