//! Protocols that carry the traffic, as scenarios see them: a name, and the networks on which the protocol runs.
//!
//! The simulator owns the list of protocols and their parameters. This crate checks a scenario against the list that it
//! is given.

use crate::kinds::{KINDS, TopologyKind};

/// Description of a protocol: its name, the networks on which it runs, and the features that it does not support.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Name in scenarios, tables and reports.
    pub name: &'static str,
    /// One-line description of the protocol.
    pub about: &'static str,
    pub networks: Networks,
    /// Whether the protocol supports nodes with several links, as on a `drack`.
    pub several_links: bool,
    /// Whether the protocol simulates the inside of hosts (`[host]`).
    pub hosts: bool,
    /// Whether a run of the protocol can be split over threads.
    pub splits: bool,
    /// Reason why switches cannot share a buffer among their ports; `None` if they can.
    pub no_shared_buffer: Option<&'static str>,
    /// Reason why the protocol cannot run with faults; `None` if it can.
    pub no_faults: Option<&'static str>,
}

impl Profile {
    /// Profile of a protocol that runs on networks with switches and supports no optional feature.
    pub const SWITCHED: Profile = Profile {
        name: "",
        about: "",
        networks: Networks::Switched,
        several_links: false,
        hosts: false,
        splits: false,
        no_shared_buffer: None,
        no_faults: None,
    };
}

/// Networks on which a protocol runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Networks {
    /// Networks of one switch with all nodes around it.
    Star,
    /// Any network with switches.
    Switched,
    /// Networks without switches, whose nodes forward for each other.
    Direct,
    /// All networks.
    Any,
}

impl Networks {
    /// Returns whether this set includes networks with switches.
    pub const fn have_switches(self) -> bool {
        !matches!(self, Networks::Direct)
    }

    /// Returns whether this set includes networks without switches.
    pub const fn have_direct(self) -> bool {
        matches!(self, Networks::Direct | Networks::Any)
    }
}

/// A protocol that a scenario can name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(&'static Profile);

impl Protocol {
    /// Creates the protocol that a profile describes.
    pub const fn new(profile: &'static Profile) -> Protocol {
        Protocol(profile)
    }

    /// Returns the name of the protocol in scenarios, tables and reports.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the description of the protocol.
    pub const fn profile(self) -> &'static Profile {
        self.0
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Protocols and topologies that a scenario may name, in the order in which they are listed to users.
#[derive(Debug, Clone, Default)]
pub struct KnownNames {
    pub protocols: Vec<Protocol>,
    /// Kinds of topologies in addition to those of this crate.
    pub topologies: Vec<TopologyKind>,
}

impl KnownNames {
    /// Returns the protocol with this name.
    pub fn protocol(&self, name: &str) -> Option<Protocol> {
        self.protocols.iter().copied().find(|protocol| protocol.name() == name)
    }

    /// Returns all kinds of topologies: those of this crate, followed by the added ones.
    pub fn all_topologies(&self) -> Vec<TopologyKind> {
        KINDS.iter().chain(&self.topologies).copied().collect()
    }

    /// Returns the names of the protocols whose profile satisfies `selects`.
    pub fn names(&self, selects: impl Fn(&Profile) -> bool) -> Vec<&'static str> {
        self.protocols.iter().filter(|it| selects(it.profile())).map(|it| it.name()).collect()
    }
}

/// Joins words into a list for a sentence, such as "a, b and c".
pub fn listed(words: &[impl AsRef<str>], conjunction: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
        None => String::new(),
    }
}
