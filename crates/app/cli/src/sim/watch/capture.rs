//! Packet capture, with one interface for each direction of a link.

use super::link_name;
use std::collections::BTreeMap;
use std::path::Path;
use unrack_record::RecordError;
use unrack_record::pcapng::{Captured, LinkType, Pcapng};
use unrack_sim::observe::wire::WireFormat;
use unrack_sim::topology::Topology;
use unrack_sim::{Hop, LinkId};
use unrack_workload::Message;

pub(super) struct PacketCapture {
    file: Pcapng,
    wire: WireFormat,
    topology: Topology,
    interfaces: BTreeMap<LinkId, u32>,
}

impl PacketCapture {
    /// Creates the file.
    pub(super) fn create(
        path: &Path,
        topology: &Topology,
        wire: WireFormat,
    ) -> Result<PacketCapture, RecordError> {
        let file = Pcapng::create(path)?;
        Ok(PacketCapture { file, wire, topology: topology.clone(), interfaces: BTreeMap::new() })
    }

    /// Writes a packet, with the time at which its last bit left.
    pub(super) fn packet(&mut self, hop: &Hop, message: Option<&Message>) -> Result<(), RecordError> {
        let interface = match self.interfaces.get(&hop.link) {
            Some(interface) => *interface,
            None => self.describe(hop.link)?,
        };
        let frame = self.wire.frame(hop, message);
        let comment = hop.message.map_or(String::new(), |id| format!("message {}", id.0));
        self.file.packet(&Captured {
            interface,
            time_ps: hop.last.as_ps(),
            bytes: &frame.bytes,
            length: frame.length,
            comment: &comment,
        })
    }

    fn describe(&mut self, link: LinkId) -> Result<u32, RecordError> {
        let kind = if self.wire.is_ethernet() { LinkType::Ethernet } else { LinkType::User0 };
        let rate = match link {
            LinkId::Host(link) => self.topology.attachment_link(link),
            LinkId::Port(port) => self.topology.link(port),
        };
        let name = link_name(link, &self.topology);
        let interface = self.file.interface(&name, kind, rate.pace.rate().as_bps())?;
        self.interfaces.insert(link, interface);
        Ok(interface)
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<(), RecordError> {
        self.file.finish()
    }
}
