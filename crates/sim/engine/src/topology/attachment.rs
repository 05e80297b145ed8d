//! Links by which nodes send: one link per node or, where NICs are pooled, all NICs of the rack.

use super::{DrackNumbering, Topology, TopologyShape};
use crate::faults::FaultSchedule;
use crate::link::{Link, LinkEnd};
use unrack_units::Time;
use unrack_workload::NodeId;

impl Topology {
    /// Returns the number of NICs that each host may use: all NICs of its rack where NICs are pooled, otherwise 1.
    #[inline]
    pub fn pooled(&self) -> u32 {
        match self.shape {
            TopologyShape::Drack(DrackNumbering { wiring }) => wiring.hosts_per_rack,
            _ => 1,
        }
    }

    /// Returns the number of links by which nodes send: one per node or per NIC. Where NICs are pooled, the links of
    /// the CXL ports follow. Link n is [`LinkId::Host(n)`](crate::LinkId::Host).
    pub fn attachments(&self) -> u32 {
        if self.pooled_shape().is_some() { 2 * self.nodes() } else { self.nodes() }
    }

    #[inline]
    pub(super) fn pooled_shape(&self) -> Option<&DrackNumbering> {
        match &self.shape {
            TopologyShape::Drack(drack) => Some(drack),
            _ => None,
        }
    }

    /// Returns the link by which `src` sends packets with this hash to `dst` when all links are up.
    #[inline]
    pub fn attachment(&self, src: NodeId, dst: NodeId, hash: u32) -> u32 {
        let Some(drack) = self.pooled_shape() else { return src };
        let links = drack.attachments(src, dst);
        links.nth(hash % links.len())
    }

    /// Returns the link like [`Topology::attachment`], but avoids links that are known to be down at `now`. If every
    /// link is blocked, it returns the same link.
    #[inline]
    pub fn attachment_at(&self, src: NodeId, dst: NodeId, hash: u32, now: Time) -> u32 {
        let link = self.attachment(src, dst, hash);
        match (&self.faults, self.pooled_shape()) {
            (Some(faults), Some(drack)) if faults.any_known(now) => {
                let is_up = |link: &u32| self.attachment_leads_on(faults, *link, dst, now);
                if is_up(&link) {
                    return link;
                }
                let up = || drack.attachments(src, dst).ports().filter(is_up);
                up().nth(hash as usize % up().count().max(1)).unwrap_or(link)
            }
            _ => link,
        }
    }

    fn attachment_leads_on(&self, faults: &FaultSchedule, link: u32, dst: NodeId, now: Time) -> bool {
        let switch = self.switch_at(link);
        !faults.known_down_host(link, now)
            && self.all_next_ports(switch, dst).any(|port| self.leads_on(faults, port, dst, now))
    }

    /// Returns the properties of one of the links that [`Topology::attachments`] counts.
    #[inline]
    pub fn attachment_link(&self, attachment: u32) -> Link {
        if attachment < self.nodes() { self.host_link } else { self.cxl_link }
    }

    /// Returns the switch to which one of the links that [`Topology::attachments`] counts leads.
    #[inline]
    pub fn switch_at(&self, attachment: u32) -> u32 {
        match self.pooled_shape() {
            Some(drack) => drack.switch_at(attachment),
            None => self.switch_of(attachment),
        }
    }

    /// Returns the link, among those that [`Topology::attachments`] counts, whose cable ends at this port; `None` if
    /// the port leads to a switch.
    #[inline]
    pub fn attachment_of(&self, port: u32) -> Option<u32> {
        match (self.pooled_shape(), self.end(port)) {
            (Some(drack), _) => drack.attachment_of(port),
            (None, LinkEnd::Node(node)) => Some(node),
            (None, LinkEnd::Switch(_)) => None,
        }
    }
}
