//! How long a message takes alone in the network: arithmetic.

use crate::network::Star;
use unrack_protocol::cxl::{Class, Params};
use unrack_units::Time;
use unrack_workload::Kind;

#[derive(Debug, Clone, Copy)]
pub(super) struct Alone {
    flit: Time,
    slots: u64,
    /// From the end of a flit to its use: at the switch, at a node.
    to_switch: Time,
    to_node: Time,
}

impl Alone {
    pub(super) fn new(star: &Star, params: &Params, flit: Time) -> Alone {
        let to_node = star.propagation + params.port;
        Alone { flit, slots: u64::from(params.flit.slots()), to_switch: to_node + params.hop, to_node }
    }

    /// Flits that `lines` messages of a class take.
    fn flits(&self, class: Class, lines: u64) -> Time {
        self.flit * (lines * u64::from(class.slots())).div_ceil(self.slots)
    }

    /// From the start of `lines` messages at one node until the last is at another. The switch passes
    /// on each message when it has come, and keeps the pace: it is done the flits of the first
    /// message later.
    fn cross(&self, class: Class, lines: u64) -> Time {
        self.flits(class, 1) + self.to_switch + self.flits(class, lines) + self.to_node
    }

    pub(super) fn completion(&self, kind: Kind, lines: u64) -> Time {
        // Data follows the first request as fast as the link takes it: requests come faster, or,
        // with data of their own, as fast.
        match kind {
            Kind::Read => self.cross(Class::Req, 1) + self.cross(Class::Drs, lines),
            Kind::Rmw => self.cross(Class::RwD, 1) + self.cross(Class::Drs, lines),
            Kind::Write | Kind::Flow => self.cross(Class::RwD, lines),
        }
    }
}
