//! Model checking of the claims: hosts share memory that is not coherent, may be stopped anywhere, and run in every
//! order.
//!
//! A host has copies of lines, and a store changes only its copy. [`WordAccess::publish`] and [`WordAccess::refresh`] start an
//! operation that ends at any later moment, at the latest at the fence. A dirty copy may also be written back by itself
//! at any moment. A host may lose power between any two accesses, and then loses all its copies. Later the host joins
//! again, or another host declares it ended. Each test explores all states. [`each_access_is_needed`] leaves out the
//! accesses of one purpose at a time, and expects that a property fails then.

use super::claims::*;
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// Cache line of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Line {
    /// First line of a host's record. It has the host's incarnation, and the incarnations of other hosts that it
    /// declared ended.
    Head(Host),
    /// Claims of a host.
    Claims(Host),
    /// A line of a section's contents.
    Contents(u32),
}

/// Contents of a line, with only the words that the model needs.
type LineContent = [u8; 3];

/// Copy of a line in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Copied {
    content: LineContent,
    dirty: bool,
}

/// Operation that ends at any later moment, at the latest at the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum DelayedStep {
    Publish(Line),
    Refresh(Line),
}

/// Copies of one host, and the operations that it has started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Cache {
    copies: BTreeMap<Line, Copied>,
    begun: BTreeSet<DelayedStep>,
}

type Device = BTreeMap<Line, LineContent>;

fn line_of(word: HostWord) -> (Line, usize) {
    match word {
        HostWord::Incarnation(host) => (Line::Head(host), host),
        HostWord::Ended { by, of } => (Line::Head(by), of),
        HostWord::Claim { by, section } => (Line::Claims(by), section as usize),
    }
}

impl Cache {
    fn load(&mut self, device: &Device, line: Line) -> &mut Copied {
        let content = device.get(&line).copied().unwrap_or_default();
        self.copies.entry(line).or_insert(Copied { content, dirty: false })
    }

    fn write_back(&mut self, device: &mut Device, line: Line) {
        if let Some(copy) = self.copies.get_mut(&line).filter(|copy| copy.dirty) {
            copy.dirty = false;
            device.insert(line, copy.content);
        }
    }

    fn end(&mut self, device: &mut Device, begun: DelayedStep) {
        self.begun.remove(&begun);
        let (DelayedStep::Publish(line) | DelayedStep::Refresh(line)) = begun;
        self.write_back(device, line);
        if matches!(begun, DelayedStep::Refresh(_)) {
            self.copies.remove(&line);
        }
    }
}

/// Access of one host, without the accesses that the test leaves out.
struct ModelAccess<'a> {
    cache: &'a mut Cache,
    device: &'a mut Device,
    without: Option<Omitted>,
}

/// Accesses that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Omitted {
    Publish(AccessReason),
    Refresh(AccessReason),
    Fence(AccessReason),
}

impl ModelAccess<'_> {
    fn part(part: DevicePart) -> Line {
        match part {
            DevicePart::Word(word) => line_of(word).0,
            DevicePart::Section(section) => Line::Contents(section),
        }
    }
}

impl WordAccess for ModelAccess<'_> {
    fn load(&mut self, word: HostWord) -> u64 {
        let (line, at) = line_of(word);
        self.cache.load(self.device, line).content[at].into()
    }

    fn store(&mut self, word: HostWord, value: u64) {
        let (line, at) = line_of(word);
        let copy = self.cache.load(self.device, line);
        copy.content[at] = value as u8;
        copy.dirty = true;
    }

    fn publish(&mut self, part: DevicePart, why: AccessReason) {
        if self.without != Some(Omitted::Publish(why)) {
            self.cache.begun.insert(DelayedStep::Publish(Self::part(part)));
        }
    }

    fn refresh(&mut self, part: DevicePart, why: AccessReason) {
        let line = Self::part(part);
        if self.without != Some(Omitted::Refresh(why)) && self.cache.copies.contains_key(&line) {
            self.cache.begun.insert(DelayedStep::Refresh(line));
        }
    }

    fn fence(&mut self, why: AccessReason) {
        if self.without != Some(Omitted::Fence(why)) {
            for begun in self.cache.begun.clone() {
                self.cache.end(self.device, begun);
            }
        }
    }
}

/// Current activity of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum HostActivity {
    Joining(Join),
    /// Decides what to do next.
    Idle,
    /// Takes a section. The flag is true while no other host has or wants the section.
    Taking(ClaimRule, bool),
    /// Writes the contents of a section that it has taken.
    Writing(u32, Write),
    Releasing(Release),
    /// Has taken and released all its sections.
    Ended,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Write {
    Store,
    Publish,
    /// The contents are on the device, and must stay there until the section is released.
    Published,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelMember {
    cache: Cache,
    doing: HostActivity,
    incarnation: u64,
    /// For each host, the last incarnation that this host knows to have ended.
    ended: Vec<u64>,
    /// Number of sections that this host must still take and release.
    to_take: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rack {
    device: Device,
    members: Vec<ModelMember>,
    failures_left: u8,
    /// Description of an error in a step.
    wrong: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Event {
    Step(Host),
    /// A host begins to take a section.
    Begin(Host, u32),
    /// An operation that a host started ends by itself.
    End(Host, DelayedStep),
    /// A dirty line is written back by itself.
    Evict(Host, Line),
    /// A line is fetched before it is needed.
    Prefetch(Host, Line),
    Fail(Host),
    Restart(Host),
    Declare(Host, Host),
    Learn(Host, Host),
}

/// Size of the model.
#[derive(Debug, Clone, Copy)]
struct ModelSize {
    hosts: usize,
    sections: u32,
    /// Number of sections that each host takes one after another.
    takes: u8,
    failures: u8,
    restarts: bool,
    patience: u8,
    prefetches: bool,
    without: Option<Omitted>,
}

const SMALL: ModelSize = ModelSize {
    hosts: 2,
    sections: 1,
    takes: 2,
    failures: 1,
    restarts: true,
    patience: 1,
    prefetches: true,
    without: None,
};

impl Rack {
    /// Calls `act` with a host's access and the host's state.
    fn with<T>(
        &mut self,
        host: Host,
        without: Option<Omitted>,
        act: impl FnOnce(&mut ModelAccess<'_>, &mut ModelMember) -> T,
    ) -> T {
        let member = &mut self.members[host];
        let mut cache = std::mem::take(&mut member.cache);
        let mut access = ModelAccess { cache: &mut cache, device: &mut self.device, without };
        let result = act(&mut access, member);
        self.members[host].cache = cache;
        result
    }

    /// Returns the last incarnation of a host that has ended according to the device.
    fn ended_on_device(&self, of: Host) -> u64 {
        let on_device = |word: HostWord| {
            let (line, at) = line_of(word);
            u64::from(self.device.get(&line).map_or(0, |content| content[at]))
        };
        let current = on_device(HostWord::Incarnation(of));
        let others = (0..self.members.len()).filter(|&by| by != of);
        let declared =
            others.map(|by| on_device(HostWord::Ended { by, of })).filter(|&ended| ended <= current);
        declared.max().unwrap_or(0).max(current.saturating_sub(1))
    }

    /// Returns whether a host has or wants a section, according to the device or to the host's copies.
    fn is_wanted(&self, by: Host, section: u32, ended: u64) -> bool {
        let (line, at) = line_of(HostWord::Claim { by, section });
        let device = self.device.get(&line).map_or(0, |content| content[at]);
        let copied = self.members[by].cache.copies.get(&line).map_or(0, |copy| copy.content[at]);
        let takes =
            matches!(self.members[by].doing, HostActivity::Taking(take, _) if take.section() == section);
        takes || u64::from(device.max(copied)) > ended
    }

    /// Returns whether no other host has or wants a section, as far as this host can know.
    fn is_clear(&self, for_host: Host, section: u32) -> bool {
        let others = (0..self.members.len()).filter(|&by| by != for_host);
        others.into_iter().all(|by| !self.is_wanted(by, section, self.members[for_host].ended[by]))
    }

    /// Returns the hosts that use a section.
    fn users(&self, section: u32) -> impl Iterator<Item = Host> {
        self.members.iter().enumerate().filter_map(move |(host, member)| match member.doing {
            HostActivity::Writing(used, _) if used == section => Some(host),
            _ => None,
        })
    }

    fn step(&mut self, host: Host, without: Option<Omitted>) {
        self.with(host, without, |access, member| {
            member.doing = match member.doing {
                HostActivity::Joining(join) => match join.step(access, member.ended[host]) {
                    Stepped::Going(join) => HostActivity::Joining(join),
                    Stepped::Done(incarnation) => {
                        member.incarnation = incarnation;
                        HostActivity::Idle
                    }
                },
                HostActivity::Taking(take, clear) => match take.step(access, &member.ended) {
                    Stepped::Going(take) => HostActivity::Taking(take, clear),
                    Stepped::Done(ClaimOutcome::Ours) => HostActivity::Writing(take.section(), Write::Store),
                    Stepped::Done(ClaimOutcome::Of(_)) if clear => return Err("a free section was refused"),
                    Stepped::Done(ClaimOutcome::Of(_)) => HostActivity::Idle,
                },
                HostActivity::Writing(section, Write::Store) => {
                    let copy = access.cache.load(access.device, Line::Contents(section));
                    *copy = Copied { content: [host as u8 + 1, member.to_take, 0], dirty: true };
                    HostActivity::Writing(section, Write::Publish)
                }
                HostActivity::Writing(section, Write::Publish) => {
                    // The host publishes the contents that it wrote; this is not part of the rules.
                    access.cache.begun.insert(DelayedStep::Publish(Line::Contents(section)));
                    access.fence(AccessReason::Look);
                    HostActivity::Writing(section, Write::Published)
                }
                HostActivity::Writing(section, Write::Published) => {
                    // The section is written again but not published, because the release must publish it.
                    let copy = access.cache.load(access.device, Line::Contents(section));
                    *copy = Copied { content: [host as u8 + 1, member.to_take, 1], dirty: true };
                    HostActivity::Releasing(Release::new(host, section))
                }
                HostActivity::Releasing(release) => match release.step(access) {
                    Stepped::Going(release) => HostActivity::Releasing(release),
                    Stepped::Done(()) => HostActivity::Idle,
                },
                doing @ (HostActivity::Idle | HostActivity::Ended | HostActivity::Off) => doing,
            };
            Ok(())
        })
        .unwrap_or_else(|wrong| self.wrong = Some(wrong));
    }
}

impl ModelSize {
    /// Returns whether no event other than an eviction can happen. Evictions are excluded because a dirty line may stay
    /// in a cache for ever.
    fn is_quiet(&self, rack: &Rack) -> bool {
        let mut events = Vec::new();
        self.actions(rack, &mut events);
        let happens =
            |event: &Event| !matches!(event, Event::Evict(..)) && self.next_state(rack, *event).is_some();
        !events.iter().any(happens)
    }
}

impl Model for ModelSize {
    type State = Rack;
    type Action = Event;

    fn init_states(&self) -> Vec<Rack> {
        let member = |host| ModelMember {
            cache: Cache::default(),
            doing: HostActivity::Joining(Join::new(host)),
            incarnation: 0,
            ended: vec![0; self.hosts],
            to_take: self.takes,
        };
        let members = (0..self.hosts).map(member).collect();
        vec![Rack { device: Device::new(), members, failures_left: self.failures, wrong: None }]
    }

    fn actions(&self, rack: &Rack, events: &mut Vec<Event>) {
        for (host, member) in rack.members.iter().enumerate() {
            match member.doing {
                HostActivity::Off => {
                    if self.restarts {
                        events.push(Event::Restart(host));
                    }
                    continue;
                }
                HostActivity::Idle => match member.to_take {
                    0 => events.push(Event::Step(host)),
                    _ => events.extend((0..self.sections).map(|section| Event::Begin(host, section))),
                },
                HostActivity::Ended => {}
                _ => events.push(Event::Step(host)),
            }
            if matches!(member.doing, HostActivity::Idle | HostActivity::Ended) {
                for of in (0..self.hosts).filter(|&of| of != host) {
                    if rack.ended_on_device(of) > member.ended[of] {
                        events.push(Event::Learn(host, of));
                    }
                    let ended = rack.members[of].incarnation;
                    if rack.members[of].doing == HostActivity::Off && rack.ended_on_device(of) < ended {
                        events.push(Event::Declare(host, of));
                    }
                }
            }
            events.extend(member.cache.begun.iter().map(|&begun| Event::End(host, begun)));
            let dirty = member.cache.copies.iter().filter(|(_, copy)| copy.dirty);
            events.extend(dirty.map(|(&line, _)| Event::Evict(host, line)));
            if self.prefetches && matches!(member.doing, HostActivity::Taking(..)) {
                let others = (0..self.hosts).filter(|&of| of != host).map(Line::Claims);
                let absent = others.filter(|line| !member.cache.copies.contains_key(line));
                events.extend(absent.map(|line| Event::Prefetch(host, line)));
            }
            if rack.failures_left > 0 && member.doing != HostActivity::Ended {
                events.push(Event::Fail(host));
            }
        }
    }

    fn next_state(&self, before: &Rack, event: Event) -> Option<Rack> {
        let mut rack = before.clone();
        match event {
            Event::Step(host) if rack.members[host].doing == HostActivity::Idle => {
                rack.members[host].doing = HostActivity::Ended;
            }
            Event::Step(host) => rack.step(host, self.without),
            Event::Begin(host, section) => {
                let clear = rack.is_clear(host, section);
                let member = &mut rack.members[host];
                let us = Claimant { host, incarnation: member.incarnation, hosts: self.hosts };
                member.to_take -= 1;
                member.doing =
                    HostActivity::Taking(ClaimRule::new(us, section).with_patience(self.patience), clear);
            }
            Event::End(host, begun) => {
                let Rack { members, device, .. } = &mut rack;
                members[host].cache.end(device, begun);
            }
            Event::Evict(host, line) => {
                let Rack { members, device, .. } = &mut rack;
                members[host].cache.write_back(device, line);
            }
            Event::Prefetch(host, line) => {
                let Rack { members, device, .. } = &mut rack;
                members[host].cache.load(device, line);
            }
            Event::Fail(host) => {
                rack.failures_left -= 1;
                rack.members[host].cache = Cache::default();
                // Everything that the host had not published is lost.
                rack.members[host].doing = HostActivity::Off;
            }
            Event::Restart(host) => rack.members[host].doing = HostActivity::Joining(Join::new(host)),
            Event::Declare(host, of) => {
                let incarnation = rack.members[of].incarnation;
                rack.with(host, self.without, |access, _| declare(access, host, of, incarnation));
            }
            Event::Learn(host, of) => {
                let true_now = rack.ended_on_device(of);
                let hosts = self.hosts;
                let learnt = rack.with(host, self.without, |access, member| {
                    member.ended[of] = member.ended[of].max(learn(access, hosts, of));
                    member.ended[of]
                });
                if learnt < true_now {
                    rack.wrong = Some("an end was not learnt");
                }
            }
        }
        // A host that takes a section may be refused once another host begins to want the section.
        for host in 0..self.hosts {
            if let HostActivity::Taking(take, true) = rack.members[host].doing
                && !rack.is_clear(host, take.section())
            {
                rack.members[host].doing = HostActivity::Taking(take, false);
            }
        }
        (rack != *before).then_some(rack)
    }

    fn properties(&self) -> Vec<Property<ModelSize>> {
        vec![
            Property::always("no section is lent twice", |model: &ModelSize, rack: &Rack| {
                (0..model.sections).all(|section| rack.users(section).count() <= 1)
            }),
            Property::always("what a host published stays while it has the section", |_, rack: &Rack| {
                rack.members.iter().enumerate().all(|(host, member)| match member.doing {
                    HostActivity::Writing(section, Write::Published) => {
                        let content = rack.device.get(&Line::Contents(section)).copied().unwrap_or_default();
                        content[..2] == [host as u8 + 1, member.to_take]
                    }
                    _ => true,
                })
            }),
            Property::always("no step is wrong", |_, rack: &Rack| rack.wrong.is_none()),
            Property::always("no section is lost for ever", |model: &ModelSize, rack: &Rack| {
                let all_off = rack.members.iter().all(|member| member.doing == HostActivity::Off);
                all_off || !model.is_quiet(rack) || {
                    (0..model.hosts).all(|by| {
                        let ended = rack.ended_on_device(by);
                        (0..model.sections).all(|section| !rack.is_wanted(by, section, ended))
                    })
                }
            }),
        ]
    }
}

/// Explores all states. Returns their number, and the name of a property that fails.
fn explore(model: ModelSize) -> (usize, Option<&'static str>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = model.checker().threads(threads).spawn_bfs().join();
    let failed = checker.discoveries().into_iter().next();
    if let Some((name, path)) = &failed {
        eprintln!("{name}: {:?}", path.clone().into_actions());
    }
    (checker.unique_state_count(), failed.map(|(name, _)| name))
}

#[test]
fn two_hosts_never_share_a_section_nor_lose_one() {
    for model in [SMALL, ModelSize { sections: 2, takes: 1, ..SMALL }, ModelSize { restarts: false, ..SMALL }]
    {
        let (states, failed) = explore(model);
        println!("{states} states of {model:?}");
        assert_eq!(failed, None);
    }
}

/// Leaves out all accesses of one purpose, and checks that some property fails then.
#[test]
fn each_access_is_needed() {
    use AccessReason::*;
    use Omitted::{Fence, Publish, Refresh};
    let stable = ModelSize { failures: 0, restarts: false, prefetches: false, ..SMALL };
    let twice = ModelSize { takes: 1, failures: 2, prefetches: false, ..SMALL };
    let joins = ModelSize { takes: 1, prefetches: false, ..SMALL };
    for (omitted, model) in [
        (Refresh(Look), stable),
        (Fence(Look), stable),
        (Publish(Claim), stable),
        (Refresh(Check), stable),
        (Fence(Check), stable),
        (Publish(Contents), stable),
        (Fence(Contents), stable),
        (Publish(Withdraw), stable),
        (Publish(Join), joins),
        (Fence(Join), joins),
        (Publish(Declare), ModelSize { restarts: false, ..SMALL }),
        (Refresh(Learn), twice),
        (Fence(Learn), twice),
    ] {
        let (states, failed) = explore(ModelSize { without: Some(omitted), ..model });
        println!("without {omitted:?}: {failed:?} after {states} states");
        assert_ne!(failed, None, "{omitted:?} can be left out");
    }
}

#[test]
fn three_hosts_never_share_a_section_nor_lose_one() {
    for model in [
        ModelSize { hosts: 3, takes: 1, failures: 0, prefetches: false, patience: 0, ..SMALL },
        ModelSize {
            hosts: 3,
            takes: 1,
            failures: 1,
            prefetches: false,
            restarts: false,
            patience: 0,
            ..SMALL
        },
    ] {
        let (states, failed) = explore(model);
        println!("{states} states of {model:?}");
        assert_eq!(failed, None);
    }
}
