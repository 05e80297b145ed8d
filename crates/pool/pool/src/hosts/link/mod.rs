//! Link of this host's manager to another host's manager: epochs of the link, detection of silence, and messages in
//! order.
//!
//! Each side counts *epochs* of the link in its record. It also names there the epoch of the peer for which it is
//! *ready*, which means that its processes no longer have memory mapped by channels of earlier epochs. The link is up
//! while each side is ready for the current epoch of its peer, and only then do messages pass. They pass by a ring: the
//! sender writes the bytes and their number, and the receiver writes how many bytes it has read.
//!
//! A side begins a new epoch, so that the link goes down, if it restarts, finds its peer silent or damaged, or sees
//! that the peer has begun an epoch. Memory of this host that the peer's processes could write is not reused until the
//! peer is ready for the new epoch, or its incarnation has ended ([`Happened::Confirmed`]). Therefore a host that was
//! stopped and continues cannot write into memory that was given to other processes meanwhile.

use super::claims::Host;
use super::layout::{HeadWord, LinkWord, RING_BYTES};
use super::member::{Membership, Standing};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Size of the longest message in bytes.
pub(crate) const MOST_MESSAGE: usize = 4096;
/// Messages that may wait for room in the ring before the peer counts as slow.
pub(crate) const MOST_WAITING: usize = 1024;

/// Number of low bits of [`LinkWord::Written`] that count bytes. The bits above them have the low bits of the epoch.
const COUNT_BITS: u32 = 48;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// Event of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Messages pass from now on. No message of an earlier epoch can arrive.
    Up,
    /// No more messages pass, and every channel over the link has ended.
    Down,
    /// No process of the other host still has memory mapped by a channel of an earlier epoch.
    Confirmed,
    Message(Vec<u8>),
}

/// One link, as seen from this side.
pub(crate) struct Link {
    peer: Host,
    epoch: u64,
    /// Epoch of the peer for which this side is ready; zero if it is not ready.
    ready: u64,
    written: u64,
    read: u64,
    up: bool,
    confirmed: bool,
    waiting: VecDeque<Vec<u64>>,
    heartbeat: u64,
    /// Time of the last change of the peer's heartbeat; `None` before the first change.
    beat_at: Option<Instant>,
}

impl Link {
    /// Makes a link, and begins a new epoch.
    pub(crate) fn new(member: &Membership, peer: Host) -> Link {
        let before = member.records.link(member.host(), peer)[LinkWord::Epoch as usize];
        let mut link = Link {
            peer,
            epoch: before,
            ready: 0,
            written: 0,
            read: 0,
            up: false,
            confirmed: false,
            waiting: VecDeque::new(),
            heartbeat: member.heartbeat(peer),
            beat_at: None,
        };
        link.begin(member);
        link
    }

    /// Returns whether the link is up.
    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// Returns whether the link is up, and not too many messages wait for room in the ring.
    pub(crate) fn has_room(&self) -> bool {
        self.up && self.waiting.len() < MOST_WAITING
    }

    /// Returns whether the link is up, and no messages wait for room in the ring.
    pub(crate) fn is_free(&self) -> bool {
        self.up && self.waiting.is_empty()
    }

    /// Returns whether the other host's heartbeat has moved within the time `silence`.
    pub(crate) fn is_heard(&self, silence: Duration) -> bool {
        self.beat_at.is_some_and(|at| at.elapsed() <= silence)
    }

    /// Begins an epoch, so that the peer must become ready again.
    fn begin(&mut self, member: &Membership) {
        self.epoch = self.epoch.wrapping_add(1).max(1);
        (self.ready, self.written, self.read) = (0, 0, 0);
        (self.up, self.confirmed) = (false, false);
        self.waiting.clear();
        self.set(member, LinkWord::Ready, 0);
        self.set(member, LinkWord::Read, 0);
        self.set_written(member);
        // The epoch is stored last, so that a peer that sees it also sees the words that belong to it.
        self.set(member, LinkWord::Epoch, self.epoch);
    }

    fn set(&self, member: &Membership, word: LinkWord, value: u64) {
        member.records.set(member.host(), HeadWord::Link(self.peer, word), value);
    }

    fn set_written(&self, member: &Membership) {
        self.set(member, LinkWord::Written, self.epoch << COUNT_BITS | self.written & COUNT);
    }

    /// Sends a message, or keeps it until the ring has room. The message is lost if the link goes down.
    pub(crate) fn send(&mut self, member: &Membership, message: &[u8]) {
        assert!(message.len() <= MOST_MESSAGE);
        if !self.up {
            return;
        }
        let mut words = vec![message.len() as u64];
        words.extend(message.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
        self.waiting.push_back(words);
        let theirs = member.records.link(self.peer, member.host());
        // If the peer's count is invalid, the next `look` detects it.
        let _ = self.flush(member, theirs[LinkWord::Read as usize]);
    }

    /// Writes waiting messages to the ring, as far as it has room. Returns `None` if the peer's count is invalid.
    fn flush(&mut self, member: &Membership, read: u64) -> Option<()> {
        let unread = self.written.checked_sub(read).filter(|unread| *unread <= RING_BYTES)?;
        let mut room = RING_BYTES - unread;
        let before = self.written;
        while let Some(words) = self.waiting.front().filter(|words| words.len() as u64 * 8 <= room) {
            member.records.write_ring(member.host(), self.peer, self.written, words);
            self.written += words.len() as u64 * 8;
            room -= words.len() as u64 * 8;
            self.waiting.pop_front();
        }
        if self.written != before {
            self.set_written(member);
        }
        Some(())
    }

    /// Polls the peer, and returns the events of the link. A peer whose heartbeat has not moved for the time `silence`
    /// counts as gone. `is_clean` returns whether no process of this host still has memory mapped by a channel of an
    /// earlier epoch.
    pub(crate) fn look(
        &mut self,
        member: &Membership,
        now: Instant,
        silence: Duration,
        is_clean: impl FnOnce() -> bool,
    ) -> Vec<Happened> {
        let mut happened = Vec::new();
        let is_there = self.listen(member, now, silence);
        let [epoch, ready, written, read] = member.records.link(self.peer, member.host());
        if self.up && (!is_there || epoch != self.ready || ready != self.epoch) {
            self.begin(member);
            happened.push(Happened::Down);
            return happened;
        }
        if !self.confirmed && (ready == self.epoch || self.is_over(member)) {
            self.confirmed = true;
            happened.push(Happened::Confirmed);
        }
        if !self.up && is_there && epoch != 0 && epoch != self.ready && is_clean() {
            (self.ready, self.read) = (epoch, 0);
            self.set(member, LinkWord::Read, 0);
            self.set(member, LinkWord::Ready, epoch);
        }
        if !self.up && is_there && epoch != 0 && epoch == self.ready && ready == self.epoch {
            self.up = true;
            happened.push(Happened::Up);
        }
        if self.up {
            let passed = self.receive(member, written, &mut happened).and_then(|()| self.flush(member, read));
            if passed.is_none() {
                self.begin(member);
                happened.push(Happened::Down);
            }
        }
        happened
    }

    /// Takes the messages that have arrived. Returns `None` if the peer's count or a message is invalid.
    fn receive(&mut self, member: &Membership, written: u64, happened: &mut Vec<Happened>) -> Option<()> {
        if written >> COUNT_BITS != self.ready & (u64::MAX >> COUNT_BITS) {
            return Some(());
        }
        let mut unread = (written & COUNT).checked_sub(self.read).filter(|unread| *unread <= RING_BYTES)?;
        let (us, before) = (member.host(), self.read);
        while unread > 0 {
            let length = member.records.read_ring(self.peer, us, self.read, 1)[0];
            let length = usize::try_from(length).ok().filter(|length| *length <= MOST_MESSAGE)?;
            let words = length.div_ceil(8);
            let taken = (1 + words as u64) * 8;
            unread = unread.checked_sub(taken)?;
            let words = member.records.read_ring(self.peer, us, self.read + 8, words);
            let mut message: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            message.truncate(length);
            happened.push(Happened::Message(message));
            self.read += taken;
        }
        if self.read != before {
            self.set(member, LinkWord::Read, self.read);
        }
        Some(())
    }

    /// Returns whether the peer serves, and its heartbeat has moved recently.
    fn listen(&mut self, member: &Membership, now: Instant, silence: Duration) -> bool {
        let heartbeat = member.heartbeat(self.peer);
        if heartbeat != self.heartbeat {
            (self.heartbeat, self.beat_at) = (heartbeat, Some(now));
        }
        let heard = self.beat_at.is_some_and(|at| now.saturating_duration_since(at) <= silence);
        heard && member.standing(self.peer) == Standing::Serving
    }

    /// Returns whether no process of the other host can still have memory of the pool mapped, because that host never
    /// joined, has left, or has ended.
    fn is_over(&self, member: &Membership) -> bool {
        member.standing(self.peer) != Standing::Serving || member.incarnation_of(self.peer).1
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
