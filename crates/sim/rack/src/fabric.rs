//! Protocols that carry the traffic, as scenarios see them: a name, and the networks that each runs on.
//!
//! The list of protocols and their parameters are the simulator's; this crate checks a scenario against whatever list
//! it is given.

use crate::kinds::{KINDS, TopologyKind};

/// Description of a protocol: its name, what it runs on, and what it refuses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Name in scenarios, tables and reports.
    pub name: &'static str,
    /// One line that says what the protocol does.
    pub about: &'static str,
    pub networks: Networks,
    /// Whether a node may have several links, as on a `drack`.
    pub several_links: bool,
    /// Whether it knows the inside of hosts (`[host]`).
    pub hosts: bool,
    /// Whether a run can be split over threads.
    pub splits: bool,
    /// Reason why switches cannot share a buffer among their ports, if they cannot.
    pub no_shared_buffer: Option<&'static str>,
    /// Reason why it cannot be run with faults, if it cannot.
    pub no_faults: Option<&'static str>,
}

impl Profile {
    /// Profile of a protocol between switches that does no more than carry packets.
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

/// Networks that a protocol runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Networks {
    /// One switch with all nodes around it.
    Star,
    /// Any network with switches.
    Switched,
    /// Networks without switches, whose nodes forward for each other.
    Direct,
    /// All networks.
    Any,
}

impl Networks {
    /// Returns whether networks with switches are among them.
    pub const fn have_switches(self) -> bool {
        !matches!(self, Networks::Direct)
    }

    /// Returns whether networks without switches are among them.
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

    /// Returns the name in scenarios, tables and reports.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the description.
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

/// Protocols and topologies that a scenario may name, in the order in which they are listed.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub protocols: Vec<Protocol>,
    /// Kinds of topologies beside those of this crate.
    pub topologies: Vec<TopologyKind>,
}

impl Known {
    /// Returns the protocol of this name.
    pub fn protocol(&self, name: &str) -> Option<Protocol> {
        self.protocols.iter().copied().find(|protocol| protocol.name() == name)
    }

    /// Returns all kinds of topologies.
    pub fn all_topologies(&self) -> Vec<TopologyKind> {
        KINDS.iter().chain(&self.topologies).copied().collect()
    }

    /// Returns the names of the protocols that a test selects.
    pub fn names(&self, selects: impl Fn(&Profile) -> bool) -> Vec<&'static str> {
        self.protocols.iter().filter(|it| selects(it.profile())).map(|it| it.name()).collect()
    }
}

/// Joins words to a list for a sentence, such as "a, b and c".
pub fn listed(words: &[impl AsRef<str>], conjunction: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, others)) => format!("{} {conjunction} {last}", others.join(", ")),
        None => String::new(),
    }
}
