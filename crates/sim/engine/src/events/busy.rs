//! Time during which each link of a run carried bits.

use super::observe::LinkId;
use unrack_units::Time;

/// Time during which each direction of each link carried bits. A link without an entry carried none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BusyTimes {
    hosts: Vec<Time>,
    ports: Vec<Time>,
}

impl BusyTimes {
    /// Returns the time during which this direction of a link carried bits.
    pub fn busy(&self, link: LinkId) -> Time {
        let (links, number) = match link {
            LinkId::Host(number) => (&self.hosts, number),
            LinkId::Port(number) => (&self.ports, number),
        };
        links.get(number as usize).copied().unwrap_or(Time::ZERO)
    }

    /// Returns the links that carried bits: first those of nodes, then those of switch ports, each in order of number.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, Time)> + '_ {
        let hosts = (0..).zip(&self.hosts).map(|(number, time)| (LinkId::Host(number), *time));
        let ports = (0..).zip(&self.ports).map(|(number, time)| (LinkId::Port(number), *time));
        hosts.chain(ports).filter(|(_, time)| *time > Time::ZERO)
    }

    #[inline]
    pub(super) fn add(&mut self, link: LinkId, time: Time) {
        let (links, number) = match link {
            LinkId::Host(number) => (&mut self.hosts, number as usize),
            LinkId::Port(number) => (&mut self.ports, number as usize),
        };
        if number >= links.len() {
            links.resize(number + 1, Time::ZERO);
        }
        links[number] += time;
    }

    /// Adds the times of another part of the same run.
    pub(super) fn add_all(&mut self, part: &BusyTimes) {
        part.iter().for_each(|(link, time)| self.add(link, time));
    }
}
