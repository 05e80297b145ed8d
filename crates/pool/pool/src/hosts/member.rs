//! This host as a member of the group that shares a device: how it joins, shows a heartbeat, and claims sections.

use super::claims::{
    ClaimOutcome, ClaimRule, Claimant, Host, HostWord, Join, Release, Stepped, declare, learn,
};
use super::layout::{HeadWord, NAME_WORDS, Superblock};
use super::records::Records;
use crate::space::MappedSpace;
use crate::wire::Extent;
use crate::{PAGE, SECTION};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two heartbeats of a host.
pub(super) const BEAT: Duration = Duration::from_millis(50);

/// Values of [`HeadWord::Standing`]; any other value means that the host never joined.
const SERVING: u64 = 1;
const LEFT: u64 = 2;

/// Identity that this host shows to the other hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostIdentity {
    /// Number of the host, which is an index into the records. Each kernel must have a different number.
    pub host: u32,
    /// Name of the host, which is shown to people who list the pool.
    pub name: String,
    /// Identity of the kernel's boot. If it has changed, no process from before the boot runs any more.
    pub boot: u128,
    /// Identity of the socket at which the manager serves.
    pub socket: u64,
}

/// Reason why a host cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotJoin {
    #[error("the device was formatted for hosts 0 to {last}: give one of them with --host, or format it for more", last = .0 - 1)]
    NoSuchHost(u32),
    #[error("host {host} is served by another manager, {name:?}: give each host a different --host number")]
    Served { host: u32, name: String },
    #[error(
        "host {0} was declared ended while programs of it still use the device: stop them first (`unrack pool ls` lists \
         them), since others may have their memory by now"
    )]
    Ended(u32),
}

/// Whether a host serves, according to its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The host never joined.
    Absent,
    Serving,
    /// The host left, and has no sections.
    Left,
}

/// Description of a host, for people who list the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostRecord {
    pub host: u32,
    pub name: String,
    pub standing: Standing,
    pub incarnation: u64,
    /// True if this incarnation was declared ended.
    pub is_ended: bool,
    /// Number of sections that the host claims.
    pub sections: u32,
}

/// Membership of this host in the group that shares a device.
pub(crate) struct Membership {
    pub(super) records: Records,
    us: Claimant,
    /// For each host, the last incarnation that is known to have ended.
    ended: Vec<u64>,
    /// Sections that this host has.
    held: BTreeSet<u32>,
    first: u32,
    sections: u32,
    /// First section after those that were taken last.
    next: u32,
    beat: u64,
    next_beat: Option<Instant>,
    next_look: Option<Instant>,
}

impl Membership {
    /// Joins the group of hosts that share a device, which is mapped as a whole. `programs_remain` is true if programs
    /// still run that used the device under an earlier manager of this host.
    ///
    /// # Errors
    /// If the device has no record for this host, another manager serves this host, or the host was declared ended
    /// while its programs still run.
    pub(crate) fn join(
        space: Arc<MappedSpace>,
        superblock: &Superblock,
        identity: &HostIdentity,
        programs_remain: bool,
        silence: Duration,
    ) -> Result<Membership, CannotJoin> {
        if identity.host >= superblock.hosts {
            return Err(CannotJoin::NoSuchHost(superblock.hosts));
        }
        let layout = superblock.layout();
        let host = identity.host as Host;
        let mut member = Membership {
            records: Records::new(space, layout),
            us: Claimant { host, incarnation: 0, hosts: superblock.hosts as usize },
            ended: vec![0; superblock.hosts as usize],
            held: BTreeSet::new(),
            first: layout.record_sections(),
            sections: superblock.sections,
            next: 0,
            beat: 0,
            next_beat: None,
            next_look: None,
        };
        member.check_unserved(identity, silence)?;
        member.learn_all();
        let current = member.records.get_word(HostWord::Incarnation(host));
        let same_boot =
            member.boot() == identity.boot && member.records.get(host, HeadWord::Standing) == SERVING;
        let was_ended = current <= member.ended[host];
        if programs_remain && (was_ended || !same_boot) {
            return Err(CannotJoin::Ended(identity.host));
        }
        match same_boot && !was_ended {
            true => member.resume(current),
            false => member.begin(),
        }
        member.introduce(identity);
        Ok(member)
    }

    /// Checks that no other manager serves this host. A manager that serves is recognized by its moving heartbeat.
    fn check_unserved(&self, identity: &HostIdentity, silence: Duration) -> Result<(), CannotJoin> {
        let host = self.us.host;
        let get = |word| self.records.get(host, word);
        let is_ours = self.boot() == identity.boot && get(HeadWord::Socket) == identity.socket;
        if get(HeadWord::Standing) != SERVING || is_ours {
            return Ok(());
        }
        let (before, start) = (get(HeadWord::Heartbeat), Instant::now());
        while start.elapsed() < silence {
            std::thread::sleep(BEAT / 2);
            if get(HeadWord::Heartbeat) != before {
                return Err(CannotJoin::Served { host: identity.host, name: self.name(host) });
            }
        }
        Ok(())
    }

    fn boot(&self) -> u128 {
        let half = |half| u128::from(self.records.get(self.us.host, HeadWord::Boot(half)));
        half(0) | half(1) << 64
    }

    /// Continues the incarnation of the previous manager on this kernel, with all sections that it claimed.
    fn resume(&mut self, incarnation: u64) {
        self.us.incarnation = incarnation;
        let claimed = self.all().filter(|&section| self.claim(self.us.host, section) == incarnation);
        self.held = claimed.collect();
    }

    /// Begins a new incarnation, without any sections.
    fn begin(&mut self) {
        let mut join = Join::new(self.us.host);
        self.us.incarnation = loop {
            match join.step(&mut self.records, self.ended[self.us.host]) {
                Stepped::Going(next) => join = next,
                Stepped::Done(incarnation) => break incarnation,
            }
        };
        self.ended[self.us.host] = self.us.incarnation - 1;
    }

    fn introduce(&mut self, identity: &HostIdentity) {
        let host = self.us.host;
        let mut name = identity.name.as_bytes().to_vec();
        name.truncate(NAME_WORDS as usize * 8);
        name.resize(NAME_WORDS as usize * 8, 0);
        for (part, word) in name.chunks_exact(8).zip(0..) {
            self.records.set(
                host,
                HeadWord::Name(word),
                u64::from_le_bytes(part.try_into().expect("8 bytes")),
            );
        }
        self.records.set(host, HeadWord::Boot(0), identity.boot as u64);
        self.records.set(host, HeadWord::Boot(1), (identity.boot >> 64) as u64);
        self.records.set(host, HeadWord::Socket, identity.socket);
        self.beat = self.records.get(host, HeadWord::Heartbeat);
        self.records.set(host, HeadWord::Standing, SERVING);
    }

    /// Returns the number of this host.
    pub(crate) fn host(&self) -> Host {
        self.us.host
    }

    /// Publishes the number by which other hosts ring this host's doorbell; `None` if this host has no doorbell.
    pub(crate) fn show_doorbell(&self, number: Option<u32>) {
        let word = number.map_or(0, |number| u64::from(number) + 1);
        self.records.set(self.us.host, HeadWord::Doorbell, word);
    }

    /// Returns the number by which a host's doorbell is rung, according to the host's record; `None` if the host has no
    /// doorbell.
    pub(crate) fn doorbell_of(&self, host: Host) -> Option<u32> {
        let word = self.records.get(host, HeadWord::Doorbell);
        u32::try_from(word.checked_sub(1)?).ok()
    }

    /// Returns the number of hosts that have records on the device.
    pub(crate) fn hosts(&self) -> usize {
        self.us.hosts
    }

    /// Makes a heartbeat if it is due.
    pub(crate) fn beat(&mut self, now: Instant) {
        if self.next_beat.is_none_or(|next| next <= now) {
            self.next_beat = Some(now + BEAT);
            self.beat = self.beat.wrapping_add(1);
            self.records.set(self.us.host, HeadWord::Heartbeat, self.beat);
        }
    }

    /// Returns the heartbeat of a host.
    pub(crate) fn heartbeat(&self, host: Host) -> u64 {
        self.records.get(host, HeadWord::Heartbeat)
    }

    /// Returns whether a host serves, according to its record.
    pub(crate) fn standing(&self, host: Host) -> Standing {
        match self.records.get(host, HeadWord::Standing) {
            SERVING => Standing::Serving,
            LEFT => Standing::Left,
            _ => Standing::Absent,
        }
    }

    /// Updates the knowledge of ended incarnations, at most once per heartbeat interval. Returns whether this host's
    /// incarnation was declared ended.
    pub(crate) fn learn_if_time(&mut self, now: Instant) -> bool {
        if self.next_look.is_some_and(|next| next > now) {
            return false;
        }
        self.next_look = Some(now + BEAT);
        self.learn_all()
    }

    /// Updates the knowledge of ended incarnations. Returns whether this host's incarnation was declared ended.
    pub(crate) fn learn_all(&mut self) -> bool {
        for of in 0..self.us.hosts {
            self.ended[of] = self.ended[of].max(learn(&mut self.records, self.us.hosts, of));
        }
        self.us.incarnation > 0 && self.ended[self.us.host] >= self.us.incarnation
    }

    /// Returns the current incarnation of a host, and whether it is known to have ended.
    pub(crate) fn incarnation_of(&self, host: Host) -> (u64, bool) {
        let incarnation = self.records.get_word(HostWord::Incarnation(host));
        (incarnation, incarnation <= self.ended[host])
    }

    /// Declares that the current incarnation of another host has ended, so that none of its stores can reach the device
    /// any more.
    pub(crate) fn declare_ended(&mut self, of: Host) {
        let (incarnation, _) = self.incarnation_of(of);
        declare(&mut self.records, self.us.host, of, incarnation);
        self.ended[of] = self.ended[of].max(incarnation);
    }

    /// Claims `count` adjacent sections, and returns the first. The search starts after the sections that were taken
    /// last. Returns `None` if not enough adjacent sections are free, or other hosts want them.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        let behind = self.next.clamp(self.first, self.sections);
        let found = self.take_within(behind..self.sections, count);
        let found = found.or_else(|| {
            let end = behind.saturating_add(count).min(self.sections);
            self.take_within(self.first..end, count)
        })?;
        self.next = found + count;
        Some(found)
    }

    fn take_within(&mut self, range: std::ops::Range<u32>, count: u32) -> Option<u32> {
        let mut start = range.start;
        while start.checked_add(count)? <= range.end {
            match self.take_all(start..start + count) {
                Ok(()) => return Some(start),
                Err(section) => start = section + 1,
            }
        }
        None
    }

    /// Claims all sections of a range. If one of them cannot be claimed, claims none and returns that section.
    fn take_all(&mut self, range: std::ops::Range<u32>) -> Result<(), u32> {
        for section in range.clone() {
            self.beat(Instant::now());
            if self.held.contains(&section) || self.take_one(section) != ClaimOutcome::Ours {
                self.give(range.start..section);
                return Err(section);
            }
            self.held.insert(section);
        }
        Ok(())
    }

    fn take_one(&mut self, section: u32) -> ClaimOutcome {
        let mut take = ClaimRule::new(self.us, section);
        loop {
            match take.step(&mut self.records, &self.ended) {
                Stepped::Going(next) => take = next,
                Stepped::Done(taken) => return taken,
            }
        }
    }

    /// Gives up sections of this host that none of its processes uses.
    pub(crate) fn give(&mut self, sections: std::ops::Range<u32>) {
        for section in sections {
            assert!(self.held.remove(&section), "a section was given up twice");
            // Writing back many sections may take longer than the other hosts wait for a heartbeat.
            self.beat(Instant::now());
            let mut release = Release::new(self.us.host, section);
            while let Stepped::Going(next) = release.step(&mut self.records) {
                release = next;
            }
        }
    }

    /// Gives up all sections except `used`. They remain if the previous manager was killed before it gave them up.
    pub(crate) fn give_all_but(&mut self, used: &BTreeSet<u32>) {
        let unused: Vec<u32> = self.held.difference(used).copied().collect();
        unused.into_iter().for_each(|section| self.give(section..section + 1));
    }

    /// Returns whether this host has a section.
    pub(crate) fn has(&self, section: u32) -> bool {
        self.held.contains(&section)
    }

    /// Returns whether a host claims all sections that an extent touches.
    pub(crate) fn is_of(&self, host: Host, extent: Extent) -> bool {
        let Some(end) = extent.offset.checked_add(extent.bytes) else { return false };
        let whole = (extent.offset | extent.bytes).is_multiple_of(PAGE) && extent.bytes > 0;
        let range = extent.offset / SECTION..end.div_ceil(SECTION);
        let inside = range.start >= u64::from(self.first) && range.end <= u64::from(self.sections);
        whole && inside && range.clone().all(|section| self.claim(host, section as u32) > self.ended[host])
    }

    fn claim(&self, by: Host, section: u32) -> u64 {
        self.records.get_word(HostWord::Claim { by, section })
    }

    fn all(&self) -> std::ops::Range<u32> {
        self.first..self.sections
    }

    /// Returns the number of sections that can be claimed, and how many of them no host claims.
    pub(crate) fn room(&self) -> (u32, u32) {
        let is_free = |section: &u32| (0..self.us.hosts).all(|by| self.claim(by, *section) <= self.ended[by]);
        (self.sections - self.first, self.all().filter(is_free).count() as u32)
    }

    /// Describes all hosts that have ever joined.
    pub(crate) fn describe(&self) -> Vec<HostRecord> {
        let one = |host: Host| {
            let (incarnation, is_ended) = self.incarnation_of(host);
            HostRecord {
                host: host as u32,
                name: self.name(host),
                standing: self.standing(host),
                incarnation,
                is_ended,
                sections: self.all().filter(|&section| self.claim(host, section) > self.ended[host]).count()
                    as u32,
            }
        };
        (0..self.us.hosts).map(one).filter(|record| record.standing != Standing::Absent).collect()
    }

    /// Returns the name of a host, without control characters.
    pub(crate) fn name(&self, host: Host) -> String {
        name_of(&self.records, host)
    }

    /// Leaves the group after giving up all sections. The next manager of this host begins a new incarnation.
    pub(crate) fn leave(&mut self) {
        self.give_all_but(&BTreeSet::new());
        self.show_doorbell(None);
        self.records.set(self.us.host, HeadWord::Standing, LEFT);
    }
}

/// Returns the name of a host, without control characters.
pub(super) fn name_of(records: &Records, host: Host) -> String {
    let words = (0..NAME_WORDS).map(|part| records.get(host, HeadWord::Name(part)));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).collect()
}
