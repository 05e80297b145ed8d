//! Computes the rates of a fixed set of flows again and again, each time with other paths for the flows. The search for better routings
//! needs this (§3.4). A *trial* is one such computation, and a *choice* is one of the possible lists of links of one flow.
//!
//! The lists of links of all choices are prepared once. A trial then costs only the update for the flows whose choice differs from the
//! previous trial, and one water-filling of empty links. The rates are bit for bit those that [`Rates`] computes for these flows.
//!
//! - **Long lists are stored as rows**, with an entry for every link, so that they can be added and subtracted without looking up links.
//! - **The choices that cross a link are computed in advance.** A trial skips those that are not in use.
//! - **The smaller group of flows is summed.** When a link is full, the flows that stop rising are subtracted from the sums of their links.
//!   If more flows stop than remain, the weights of the remaining flows are summed again instead. This is possible because all rising flows
//!   have reached the same water level.
//! - **Whether a link can fill is computed only when it would become full.** The tops of a few of its flows are usually enough to decide
//!   this.

use super::waiting::WaitingChanges;
use super::{GRAIN, Rates, Requirements, Top, UNLIMITED, WaterLevel, tops};
use crate::r2c2::weights::LinkShare;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

/// Fixed set of flows. Each flow has several choices, which are lists of links that it could use.
pub struct Trials<'a> {
    /// Capacity of each link, in Kb/s times [`LinkShare::ONE`].
    capacity: Vec<u64>,
    /// Choices of all flows. The choices of one flow are adjacent.
    choices: Vec<TrialChoice<'a>>,
    flows: Vec<Flow>,
    classes: Vec<TrialClass>,
    users: Users,
    /// For each choice, whether the choice is in use and the rate of its flow is still rising.
    rises: Vec<bool>,
    rates: Vec<u32>,
    links: RisingLinks,
}

struct TrialChoice<'a> {
    flow: u32,
    top: Top,
    list: TrialList<'a>,
}

enum TrialList<'a> {
    Short(&'a [LinkShare]),
    /// Share of each link, by link.
    Row(Box<[u32]>),
}

/// For each link, the choices (possible lists of links of a flow) that contain the link, whether they are in use or not. Only choices that
/// are stored as short lists are included.
struct Users {
    /// For each link, the index in `all` of its first choice. The last entry is the length of `all`.
    first: Vec<u32>,
    /// Choices, each with its share of the link.
    all: Vec<(u32, u32)>,
}

struct Flow {
    asked: Requirements,
    choices: Range<u32>,
    /// Choice that the current trial uses for this flow, as an index in `Trials::choices`.
    chosen: u32,
}

/// Flows of one priority.
struct TrialClass {
    priority: u8,
    flows: Vec<u32>,
    /// For each link, the sum of weight times share over the choices that are in use.
    weights: Vec<u64>,
}

/// State of the links and of the rising flows during the water-filling of a trial.
struct RisingLinks {
    left: Vec<u64>,
    rising: Vec<u64>,
    /// For each link, the capacity that was left before the flows of the current priority took any.
    room: Vec<u64>,
    waiting: WaitingChanges,
    limited: BinaryHeap<Reverse<(WaterLevel, u32)>>,
    /// Number of flows whose rates are still rising. The next field is the total length of the lists of links of these flows.
    count: usize,
    entries: usize,
    /// Choices in use that are stored as rows, with an entry for every link. The next field has those of them whose flows may still be
    /// rising.
    rows: Vec<u32>,
    rising_rows: Vec<u32>,
    /// Scratch space for the choices whose rates stop rising when a link is full.
    stopped: Vec<u32>,
    sums: Vec<u64>,
}

impl TrialList<'_> {
    fn len(&self) -> usize {
        match self {
            TrialList::Short(shares) => shares.len(),
            TrialList::Row(row) => row.len(),
        }
    }

    /// Returns the share of a link in a list that is stored as a row, or 0 if this is a short list.
    fn of_row(&self, link: u32) -> u32 {
        match self {
            TrialList::Short(_) => 0,
            TrialList::Row(row) => row[link as usize],
        }
    }

    fn add(&self, to: &mut [u64], times: u32) {
        self.each(to, |to, share| *to += u64::from(share) * u64::from(times));
    }

    fn take(&self, from: &mut [u64], times: u32) {
        self.each(from, |from, share| *from -= u64::from(share) * u64::from(times));
    }

    fn each(&self, links: &mut [u64], change: impl Fn(&mut u64, u32)) {
        match self {
            TrialList::Short(shares) => {
                shares.iter().for_each(|share| change(&mut links[share.link as usize], share.share));
            }
            TrialList::Row(row) => links.iter_mut().zip(row).for_each(|(link, share)| change(link, *share)),
        }
    }
}

impl<'a> Trials<'a> {
    /// Creates trials on the links of `empty`; flows that this table contains are ignored. `flows` has the requirements and the choices of
    /// each flow. The first choice of each flow is in use at the start.
    ///
    /// # Panics
    /// If a flow has no choice of links, or has a weight of 0.
    pub fn new(
        empty: &Rates,
        flows: impl IntoIterator<Item = (Requirements, impl IntoIterator<Item = &'a [LinkShare]>)>,
    ) -> Trials<'a> {
        let capacity = empty.capacity.to_vec();
        let mut all: Vec<Flow> = Vec::new();
        let mut choices: Vec<TrialChoice> = Vec::new();
        for (asked, lists) in flows {
            assert!(asked.weight > 0, "a flow of weight 0 would never send");
            let (flow, chosen) = (all.len() as u32, choices.len() as u32);
            choices.extend(lists.into_iter().map(|shares| TrialChoice {
                flow,
                top: empty.top(asked, shares),
                list: list(shares, capacity.len()),
            }));
            assert!(choices.len() > chosen as usize, "a flow without a choice");
            all.push(Flow { asked, choices: chosen..choices.len() as u32, chosen });
        }
        let users = Users::new(&choices, capacity.len());
        let links = RisingLinks {
            left: capacity.clone(),
            rising: vec![0; capacity.len()],
            room: capacity.clone(),
            waiting: WaitingChanges::new(capacity.len()),
            limited: BinaryHeap::new(),
            count: 0,
            entries: 0,
            rows: Vec::new(),
            rising_rows: Vec::new(),
            stopped: Vec::new(),
            sums: vec![0; capacity.len()],
        };
        let classes = classes(&all, &choices, capacity.len());
        let (rises, rates) = (vec![false; choices.len()], vec![0; all.len()]);
        Trials { capacity, choices, flows: all, classes, users, rises, rates, links }
    }

    /// Returns the rate of each flow, in Kb/s, that results if flow n uses its choice number `chosen[n]`.
    pub fn rate(&mut self, chosen: &[u8]) -> &[u32] {
        for class in &mut self.classes {
            for n in class.flows.iter().map(|flow| *flow as usize) {
                let Flow { asked, choices, chosen: before } = &mut self.flows[n];
                let now = choices.start + u32::from(chosen[n]);
                assert!(choices.contains(&now), "a choice that flow {n} has not");
                if now != *before {
                    let weight = asked.weight.into();
                    self.choices[*before as usize].list.take(&mut class.weights, weight);
                    self.choices[now as usize].list.add(&mut class.weights, weight);
                    *before = now;
                }
            }
        }
        self.links.left.copy_from_slice(&self.capacity);
        let classes = std::mem::take(&mut self.classes);
        classes.iter().for_each(|class| self.fill(class));
        self.classes = classes;
        &self.rates
    }

    /// Raises the rates of the flows of one priority until all of them have stopped, as `Rates::rise` does.
    fn fill(&mut self, class: &TrialClass) {
        self.open(class);
        let mut now = WaterLevel::ZERO;
        while self.links.count > 0 {
            let RisingLinks { left, rising, waiting, limited, .. } = &mut self.links;
            let level = |link: u32| {
                let at = link as usize;
                (rising[at] > 0).then(|| WaterLevel::saturating(left[at], rising[at]))
            };
            let link = waiting.first(level);
            let choice = limited.peek().map(|Reverse(choice)| *choice);
            match (choice, link) {
                (Some((level, choice)), link) if link.is_none_or(|link| level < link.0) => {
                    limited.pop();
                    if self.rises[choice as usize] {
                        now = now.max(level);
                        self.stop(choice);
                        self.take(choice, now);
                    }
                }
                (_, Some((_, link))) if !self.may_fill(class, link) => self.let_be(link),
                (_, Some((level, link))) => {
                    now = now.max(level);
                    self.stop_users(class, link, now);
                }
                (_, None) => unreachable!("a flow that rises is on a link that may fill, or limited"),
            }
        }
        self.links.waiting.clear();
        self.links.limited.clear();
    }

    fn open(&mut self, class: &TrialClass) {
        let links = &mut self.links;
        links.room.copy_from_slice(&links.left);
        links.rising.copy_from_slice(&class.weights);
        (links.count, links.entries) = (class.flows.len(), 0);
        links.rows.clear();
        for flow in class.flows.iter().map(|flow| &self.flows[*flow as usize]) {
            let list = &self.choices[flow.chosen as usize].list;
            self.rises[flow.chosen as usize] = true;
            links.entries += list.len();
            if let TrialList::Row(_) = list {
                links.rows.push(flow.chosen);
            }
        }
        links.rising_rows.clone_from(&links.rows);
        for (link, (left, rising)) in links.left.iter().zip(&links.rising).enumerate() {
            if *rising > 0 {
                links.waiting.push(WaterLevel::saturating(*left, *rising), link as u32);
            }
        }
        for flow in class.flows.iter().map(|flow| &self.flows[*flow as usize]) {
            let top = self.choices[flow.chosen as usize].top;
            // A flow whose top is limited by a link is handled when this link is the next to become full. This happens no later than the
            // flow reaches its top, unless the top was cut to [`UNLIMITED`].
            let at_once = |link| top.kbps == UNLIMITED && !self.may_fill(class, link);
            if top.link.is_none_or(at_once) {
                self.links.limited.push(Reverse((WaterLevel::of_top(flow.asked, top), flow.chosen)));
            }
        }
    }

    /// Returns whether a link has too little capacity for all flows of one priority at their maximum rates (tops).
    fn may_fill(&self, class: &TrialClass, link: u32) -> bool {
        let room = self.links.room[link as usize] >> GRAIN;
        let mut sum = 0;
        let mut is_too_much = |choice: u32, share: u32| {
            sum += tops(share, self.choices[choice as usize].top);
            sum > room
        };
        let is_used = |choice: u32| {
            let flow = &self.flows[self.choices[choice as usize].flow as usize];
            flow.chosen == choice && flow.asked.priority == class.priority
        };
        let rows = &self.links.rows;
        rows.iter().any(|row| is_too_much(*row, self.choices[*row as usize].list.of_row(link)))
            || self
                .users
                .of(link)
                .iter()
                .any(|(choice, share)| is_used(*choice) && is_too_much(*choice, *share))
    }

    /// Removes a link from the queue of links that may become full, because the link has enough capacity for all of its flows at their
    /// maximum rates (tops). Flows whose tops are limited by this link rise to their tops.
    fn let_be(&mut self, link: u32) {
        self.links.waiting.drop_first();
        let short = self.users.of(link).iter().map(|(choice, _)| choice);
        for choice in short.chain(&self.links.rising_rows) {
            let TrialChoice { flow, top, .. } = self.choices[*choice as usize];
            if self.rises[*choice as usize] && top.link == Some(link) {
                let asked = self.flows[flow as usize].asked;
                self.links.limited.push(Reverse((WaterLevel::of_top(asked, top), *choice)));
            }
        }
    }

    /// Settles the rates of the flows that are rising on a full link.
    fn stop_users(&mut self, class: &TrialClass, link: u32, now: WaterLevel) {
        let mut stopped = std::mem::take(&mut self.links.stopped);
        let short = self.users.of(link).iter().map(|(choice, _)| *choice);
        stopped.extend(short.filter(|choice| self.rises[*choice as usize]));
        self.links.rising_rows.retain(|row| {
            let is_on_it = self.choices[*row as usize].list.of_row(link) > 0;
            if is_on_it && self.rises[*row as usize] {
                stopped.push(*row);
            }
            !is_on_it
        });
        stopped.iter().for_each(|choice| self.stop(*choice));
        let entries: usize = stopped.iter().map(|choice| self.choices[*choice as usize].list.len()).sum();
        if entries <= self.links.entries + self.capacity.len() {
            stopped.iter().for_each(|choice| self.take(*choice, now));
        } else {
            self.keep(class, &stopped, now);
        }
        stopped.clear();
        self.links.stopped = stopped;
    }

    fn stop(&mut self, choice: u32) {
        self.rises[choice as usize] = false;
        self.links.count -= 1;
        self.links.entries -= self.choices[choice as usize].list.len();
    }

    /// Records the rate of a flow that stops rising, and subtracts the rate and the flow's weight from the sums of its links.
    fn take(&mut self, choice: u32, now: WaterLevel) {
        let rate = self.settle(choice, now);
        let TrialChoice { flow, list, .. } = &self.choices[choice as usize];
        list.take(&mut self.links.left, rate);
        list.take(&mut self.links.rising, self.flows[*flow as usize].asked.weight.into());
    }

    fn settle(&mut self, choice: u32, now: WaterLevel) -> u32 {
        let TrialChoice { flow, top, .. } = self.choices[choice as usize];
        let weight = self.flows[flow as usize].asked.weight;
        let rate = now.0.saturating_mul(weight.into()).min(top.kbps);
        self.rates[flow as usize] = rate;
        rate
    }

    /// Settles the rates of many flows by summing the weights of the flows that are still rising. This first takes the capacity of the
    /// current water level for each stopped flow, which may be more than the flow's top allows. The excess is returned afterwards; until
    /// then the sums may wrap around.
    fn keep(&mut self, class: &TrialClass, stopped: &[u32], now: WaterLevel) {
        let sums = &mut self.links.sums;
        sums.fill(0);
        for flow in class.flows.iter().map(|flow| &self.flows[*flow as usize]) {
            if self.rises[flow.chosen as usize] {
                self.choices[flow.chosen as usize].list.add(sums, flow.asked.weight.into());
            }
        }
        let links = self.links.left.iter_mut().zip(&mut self.links.rising);
        for ((left, rising), sum) in links.zip(&*sums) {
            *left = left.wrapping_sub(u64::from(now.0).wrapping_mul(*rising - sum));
            *rising = *sum;
        }
        for choice in stopped {
            let rate = self.settle(*choice, now);
            let TrialChoice { flow, list, .. } = &self.choices[*choice as usize];
            let taken = u64::from(now.0) * u64::from(self.flows[*flow as usize].asked.weight);
            if taken > u64::from(rate) {
                let back = taken - u64::from(rate);
                let give =
                    |left: &mut u64, share| *left = left.wrapping_add(u64::from(share).wrapping_mul(back));
                list.each(&mut self.links.left, give);
            }
        }
    }
}

fn list(shares: &[LinkShare], links: usize) -> TrialList<'_> {
    if shares.len() < links.div_ceil(2) {
        return TrialList::Short(shares);
    }
    let mut row = vec![0; links].into_boxed_slice();
    shares.iter().for_each(|share| row[share.link as usize] = share.share);
    TrialList::Row(row)
}

impl Users {
    fn new(choices: &[TrialChoice], links: usize) -> Users {
        let short = || {
            choices.iter().enumerate().filter_map(|(n, choice)| match choice.list {
                TrialList::Short(shares) => Some((n as u32, shares)),
                TrialList::Row(_) => None,
            })
        };
        let mut first = vec![0; links + 1];
        for LinkShare { link, .. } in short().flat_map(|(_, shares)| shares) {
            first[*link as usize + 1] += 1;
        }
        for link in 0..links {
            first[link + 1] += first[link];
        }
        let (mut next, mut all) = (first.clone(), vec![(0, 0); first[links] as usize]);
        for (choice, shares) in short() {
            for LinkShare { link, share } in shares {
                let next = &mut next[*link as usize];
                all[*next as usize] = (choice, *share);
                *next += 1;
            }
        }
        Users { first, all }
    }

    fn of(&self, link: u32) -> &[(u32, u32)] {
        let [from, to] = [0, 1].map(|next| self.first[link as usize + next] as usize);
        &self.all[from..to]
    }
}

fn classes(flows: &[Flow], choices: &[TrialChoice], links: usize) -> Vec<TrialClass> {
    let mut classes: BTreeMap<u8, TrialClass> = BTreeMap::new();
    for (n, flow) in flows.iter().enumerate() {
        let empty =
            || TrialClass { priority: flow.asked.priority, flows: Vec::new(), weights: vec![0; links] };
        let class = classes.entry(flow.asked.priority).or_insert_with(empty);
        class.flows.push(n as u32);
        choices[flow.chosen as usize].list.add(&mut class.weights, flow.asked.weight.into());
    }
    classes.into_values().collect()
}
