//! Which protocol carries the traffic. Its parameters belong to the protocol, not to the rack.

/// A protocol that a scenario can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// What no fabric on the same links can beat: every message is alone, and free but for its bits.
    Ideal,
    /// Scheduled by the switch, inside the Ethernet PHY.
    Edm,
    /// Credit flow control, hop by hop.
    Cxl,
    /// Windows cut in proportion to the marks of switches.
    Dctcp,
    /// Windows cut by loss.
    Tcp,
    /// Switches send what has least left first, and drop what has most.
    Pfabric,
    /// Receivers give tokens for what senders send; short transfers need none.
    Phost,
    /// Receivers grant to several senders at once, at priorities of their own.
    Homa,
    /// Receivers that know of everything at once: the idealized receiver-driven transport of EDM.
    Ird,
    /// Switches cut packets down to their headers, receivers pull what follows.
    Ndp,
    /// Links that pause, under senders that slow down when switches mark.
    PfcDcqcn,
    /// An arbiter gives every packet a timeslot.
    Fastpass,
    /// Multipath TCP: subflows, by each NIC of a pool.
    Mptcp,
    /// Nodes that know of all flows compute their rates: for racks without switches.
    R2c2,
    /// A queue for each flow at each node, held back hop by hop: the ideal of R2C2.
    Pfq,
}

impl Protocol {
    pub const ALL: [Protocol; 15] = [
        Protocol::Ideal,
        Protocol::Edm,
        Protocol::Cxl,
        Protocol::Dctcp,
        Protocol::Tcp,
        Protocol::Pfabric,
        Protocol::Phost,
        Protocol::Homa,
        Protocol::Ird,
        Protocol::Ndp,
        Protocol::PfcDcqcn,
        Protocol::Fastpass,
        Protocol::Mptcp,
        Protocol::R2c2,
        Protocol::Pfq,
    ];
    /// Their names, in the same order.
    pub const NAMES: &[&str] = &[
        "ideal",
        "edm",
        "cxl",
        "dctcp",
        "tcp",
        "pfabric",
        "phost",
        "homa",
        "ird",
        "ndp",
        "pfc-dcqcn",
        "fastpass",
        "mptcp",
        "r2c2",
        "pfq",
    ];

    /// As in scenarios, tables and reports.
    pub const fn name(self) -> &'static str {
        Protocol::NAMES[self as usize]
    }

    /// Whether nodes forward for each other, and there are no switches.
    pub const fn is_direct(self) -> bool {
        matches!(self, Protocol::R2c2 | Protocol::Pfq)
    }

    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Protocols of the design that this version does not have.
pub(crate) const LATER: &[&str] = &[];
