//! Claims: which host has a section. Hosts agree by words that each have only one writer.
//!
//! Hosts share no atomic read-modify-write (HydraRPC §5.2), so a host takes a section by a protocol with two flags: it
//! publishes its claim, and only then reads the claims of all other hosts. If two hosts want the same section, at least
//! one of them reads the claim of the other, so at most one takes the section. The host with the higher number
//! withdraws at once. The host with the lower number checks a few more times, and then withdraws too. The protocol uses
//! no clock. Therefore a host that stops between any two accesses, however long, keeps its claims, and finds the claims
//! of other hosts when it continues.
//!
//! A claim names the *incarnation* of its host. The claim is void once that incarnation is known to have ended, because
//! a later one has joined, or because a host declared it ended at the request of a fencing agent. A host may use
//! outdated knowledge of ended incarnations, because that only makes a claim count for longer, never for shorter.
//!
//! ```text
//! take:     read the claims of others; store ours, publish; refresh the claims of others, fence, read them
//! release:  publish the section's contents, fence; store zero, publish
//! join:     store the incarnation, publish, fence; only then claim
//! ```
//!
//! [`ClaimRule`], [`Release`], [`Join`] and [`Declare`] implement these rules one access at a time, so that the model
//! checker ([`model`](super::model)) can stop a host between any two accesses. [`WordAccess`] is the memory, real or
//! modelled.

/// Number of a host, which is an index into the records of the device.
pub(crate) type Host = usize;

/// Number of times that a host with a lower number checks again before it withdraws too.
pub(super) const PATIENCE: u8 = 64;

/// Word in the record of the host that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HostWord {
    /// Current incarnation of the host; zero before the host joins for the first time.
    Incarnation(Host),
    /// Last incarnation of `of` that `by` declares ended.
    Ended { by: Host, of: Host },
    /// Incarnation of `by` that claims the section; zero if there is no claim.
    Claim { by: Host, section: u32 },
}

/// Part of the device that is published or refreshed, in whole cache lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DevicePart {
    Word(HostWord),
    /// All bytes of a section.
    Section(u32),
}

/// Reason for an access. The model checker leaves out the accesses of one reason at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum AccessReason {
    /// First reading of other hosts' claims in [`ClaimRule`].
    Look,
    /// This host's claim in [`ClaimRule`].
    Claim,
    /// Second reading of other hosts' claims in [`ClaimRule`].
    Check,
    /// Contents of a section that [`Release`] gives up.
    Contents,
    /// Withdrawal of this host's claim.
    Withdraw,
    /// This host's incarnation in [`Join`].
    Join,
    /// Declaration by [`Declare`].
    Declare,
    /// Reading of ended incarnations by [`learn`].
    Learn,
}

/// Access of one host to the shared words, in the same steps as the hardware makes it.
pub(super) trait WordAccess {
    /// Loads a word, possibly from an outdated copy.
    fn load(&mut self, word: HostWord) -> u64;
    /// Stores a word in this host's record, possibly only into a cache.
    fn store(&mut self, word: HostWord, value: u64);
    /// Starts to write lines back to the device.
    fn publish(&mut self, part: DevicePart, why: AccessReason);
    /// Starts to drop copies of lines, so that later loads fetch them from the device.
    fn refresh(&mut self, part: DevicePart, why: AccessReason);
    /// Completes everything that was started, before any later access.
    fn fence(&mut self, why: AccessReason);
}

/// Outcome of one step of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stepped<Rule, Outcome> {
    Going(Rule),
    Done(Outcome),
}

/// Outcome of [`ClaimRule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ClaimOutcome {
    /// This host has the section.
    Ours,
    /// Another host has the section, or wants it.
    Of(Host),
}

/// Host that executes a rule, and its current incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Claimant {
    pub host: Host,
    pub incarnation: u64,
    /// Number of hosts that have records on the device.
    pub hosts: usize,
}

/// Rule by which a host takes a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClaimRule {
    us: Claimant,
    section: u32,
    at: ClaimStep,
    patience: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ClaimStep {
    Refresh,
    /// Reads the claim of a host.
    Look(Host),
    Store,
    Publish,
    RefreshAgain,
    Check(Host),
    Withdraw(Host),
    PublishWithdrawn(Host),
}

impl ClaimRule {
    /// Makes the first step of the rule.
    pub(super) fn new(us: Claimant, section: u32) -> ClaimRule {
        ClaimRule { us, section, at: ClaimStep::Refresh, patience: PATIENCE }
    }

    /// Returns the section that is being taken.
    #[cfg(test)]
    pub(super) fn section(&self) -> u32 {
        self.section
    }

    /// Limits how often the host checks again, for the model.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: u8) -> ClaimRule {
        ClaimRule { patience, ..self }
    }

    /// Makes one access. `ended` has, for each host, the last incarnation that is known to have ended.
    pub(super) fn step(self, words: &mut impl WordAccess, ended: &[u64]) -> Stepped<ClaimRule, ClaimOutcome> {
        let ClaimRule { us, section, .. } = self;
        let ours = HostWord::Claim { by: us.host, section };
        let is_claimed = |words: &mut dyn FnMut(HostWord) -> u64, by: Host| {
            let claim = words(HostWord::Claim { by, section });
            claim > ended[by]
        };
        let next = |from: Host| (from..us.hosts).find(|&host| host != us.host);
        let at = match self.at {
            ClaimStep::Refresh => {
                self.refresh_others(words, AccessReason::Look);
                next(0).map_or(ClaimStep::Store, ClaimStep::Look)
            }
            ClaimStep::Look(by) if is_claimed(&mut |word| words.load(word), by) => {
                return Stepped::Done(ClaimOutcome::Of(by));
            }
            ClaimStep::Look(by) => next(by + 1).map_or(ClaimStep::Store, ClaimStep::Look),
            ClaimStep::Store => {
                words.store(ours, us.incarnation);
                ClaimStep::Publish
            }
            ClaimStep::Publish => {
                words.publish(DevicePart::Word(ours), AccessReason::Claim);
                ClaimStep::RefreshAgain
            }
            // The fence of this refresh also completes the publishing, so from here on other hosts see this host's
            // claim.
            ClaimStep::RefreshAgain => {
                self.refresh_others(words, AccessReason::Check);
                match next(0) {
                    Some(host) => ClaimStep::Check(host),
                    None => return Stepped::Done(ClaimOutcome::Ours),
                }
            }
            ClaimStep::Check(by) if is_claimed(&mut |word| words.load(word), by) => {
                if by > us.host && self.patience > 0 {
                    let patience = self.patience - 1;
                    return Stepped::Going(ClaimRule { at: ClaimStep::RefreshAgain, patience, ..self });
                }
                ClaimStep::Withdraw(by)
            }
            ClaimStep::Check(by) => match next(by + 1) {
                Some(host) => ClaimStep::Check(host),
                None => return Stepped::Done(ClaimOutcome::Ours),
            },
            ClaimStep::Withdraw(of) => {
                words.store(ours, 0);
                ClaimStep::PublishWithdrawn(of)
            }
            ClaimStep::PublishWithdrawn(of) => {
                words.publish(DevicePart::Word(ours), AccessReason::Withdraw);
                words.fence(AccessReason::Withdraw);
                return Stepped::Done(ClaimOutcome::Of(of));
            }
        };
        Stepped::Going(ClaimRule { at, ..self })
    }

    /// Drops the copies of all other hosts' claims.
    fn refresh_others(&self, words: &mut impl WordAccess, why: AccessReason) {
        for by in (0..self.us.hosts).filter(|&host| host != self.us.host) {
            words.refresh(DevicePart::Word(HostWord::Claim { by, section: self.section }), why);
        }
        words.fence(why);
    }
}

/// Rule by which a host gives up a section. No process of the host may use the section any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Release {
    us: Host,
    section: u32,
    at: Releasing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Releasing {
    PublishContents,
    Fence,
    Store,
    Publish,
}

impl Release {
    /// Makes the first step of the rule.
    pub(super) fn new(us: Host, section: u32) -> Release {
        Release { us, section, at: Releasing::PublishContents }
    }

    /// Makes one access.
    pub(super) fn step(self, words: &mut impl WordAccess) -> Stepped<Release, ()> {
        let ours = HostWord::Claim { by: self.us, section: self.section };
        let at = match self.at {
            // The contents are published first, because a dirty line that is written back later would overwrite data of
            // the next host.
            Releasing::PublishContents => {
                words.publish(DevicePart::Section(self.section), AccessReason::Contents);
                Releasing::Fence
            }
            Releasing::Fence => {
                words.fence(AccessReason::Contents);
                Releasing::Store
            }
            Releasing::Store => {
                words.store(ours, 0);
                Releasing::Publish
            }
            Releasing::Publish => {
                words.publish(DevicePart::Word(ours), AccessReason::Withdraw);
                words.fence(AccessReason::Withdraw);
                return Stepped::Done(());
            }
        };
        Stepped::Going(Release { at, ..self })
    }
}

/// Rule by which a host publishes its next incarnation, before it claims any section. No process of the previous
/// incarnation may run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Join {
    us: Host,
    at: Joining,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Joining {
    Refresh,
    Load,
    Publish(u64),
    Fence(u64),
}

impl Join {
    /// Makes the first step of the rule.
    pub(super) fn new(us: Host) -> Join {
        Join { us, at: Joining::Refresh }
    }

    /// Makes one access. `ended` is the last incarnation of this host that is known to have ended. The outcome is the
    /// new incarnation.
    pub(super) fn step(self, words: &mut impl WordAccess, ended: u64) -> Stepped<Join, u64> {
        let ours = HostWord::Incarnation(self.us);
        let at = match self.at {
            Joining::Refresh => {
                words.refresh(DevicePart::Word(ours), AccessReason::Join);
                words.fence(AccessReason::Join);
                Joining::Load
            }
            Joining::Load => {
                let incarnation = words.load(ours).max(ended).saturating_add(1);
                words.store(ours, incarnation);
                Joining::Publish(incarnation)
            }
            Joining::Publish(incarnation) => {
                words.publish(DevicePart::Word(ours), AccessReason::Join);
                Joining::Fence(incarnation)
            }
            Joining::Fence(incarnation) => {
                words.fence(AccessReason::Join);
                return Stepped::Done(incarnation);
            }
        };
        Stepped::Going(Join { at, ..self })
    }
}

/// Declares that all incarnations of a host up to `incarnation` have ended, so that no store of theirs can reach the
/// device any more. Only a fencing agent can guarantee this.
pub(super) fn declare(words: &mut impl WordAccess, by: Host, of: Host, incarnation: u64) {
    let ours = HostWord::Ended { by, of };
    let known = words.load(ours);
    words.store(ours, known.max(incarnation));
    words.publish(DevicePart::Word(ours), AccessReason::Declare);
    words.fence(AccessReason::Declare);
}

/// Returns the last incarnation of a host that is known to have ended. This is the current incarnation if some host
/// declared it ended, and otherwise the one before it.
pub(super) fn learn(words: &mut impl WordAccess, hosts: usize, of: Host) -> u64 {
    let words_of = |by: Host| match by == of {
        true => HostWord::Incarnation(of),
        false => HostWord::Ended { by, of },
    };
    for by in 0..hosts {
        words.refresh(DevicePart::Word(words_of(by)), AccessReason::Learn);
    }
    words.fence(AccessReason::Learn);
    let current = words.load(HostWord::Incarnation(of));
    let declared = (0..hosts).filter(|&by| by != of).map(|by| words.load(words_of(by)));
    // An incarnation that has not begun cannot have ended, so such a declaration is noise and is ignored.
    let declared = declared.filter(|&ended| ended <= current);
    declared.max().unwrap_or(0).max(current.saturating_sub(1))
}
