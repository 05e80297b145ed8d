//! Protocols that carry the traffic. Their parameters are defined with the protocol, not here.

/// A protocol that a scenario can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Lower bound that no fabric on the same links can beat: every message is alone, and only its bits take time.
    Ideal,
    /// EDM: scheduled by the switch, inside the Ethernet PHY.
    Edm,
    /// CXL: credit flow control, hop by hop.
    Cxl,
    /// DCTCP: windows cut in proportion to the marks of switches.
    Dctcp,
    /// TCP: windows cut by loss.
    Tcp,
    /// pFabric: switches send the packet whose transfer has the least left first, and drop the one with the most.
    Pfabric,
    /// pHost: receivers grant tokens for what senders send; short transfers need none.
    Phost,
    /// Homa: receivers grant to several senders at once, at priorities of their own.
    Homa,
    /// Idealized receiver-driven transport of EDM: receivers learn of everything at once.
    Ird,
    /// NDP: switches trim packets to their headers, and receivers pull the following ones.
    Ndp,
    /// DCQCN over priority flow control: links that pause, under senders that slow down when switches mark.
    PfcDcqcn,
    /// Fastpass: an arbiter gives every packet a timeslot.
    Fastpass,
    /// Multipath TCP: subflows over each NIC of a pool.
    Mptcp,
    /// R2C2: nodes that know of all flows compute their rates; for racks without switches.
    R2c2,
    /// Per-flow queues with back-pressure: a queue for each flow at each node, held back hop by hop; the ideal of R2C2.
    Pfq,
}

impl Protocol {
    /// All protocols.
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
    /// Names of the protocols, in the order of [`Protocol::ALL`].
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

    /// Returns the name in scenarios, tables and reports.
    pub const fn name(self) -> &'static str {
        Protocol::NAMES[self as usize]
    }

    /// Returns whether nodes forward for each other, without switches.
    pub const fn is_direct(self) -> bool {
        matches!(self, Protocol::R2c2 | Protocol::Pfq)
    }

    /// Returns the protocol of this name.
    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
    }
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Names of planned protocols that this version does not have.
pub(crate) const LATER: &[&str] = &[];
