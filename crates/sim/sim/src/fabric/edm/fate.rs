//! State of messages that can be lost, and of links that can fail. It exists only in runs with faults or read timers.

use super::{Edm, EdmConfig, Event};
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, LinkId, Mechanism, ObservedPacket, Observer, PacketKind};
use unrack_engine::network::Departure;
use unrack_engine::topology::Topology;
use unrack_units::Time;
use unrack_workload::MessageId;

pub(super) struct Fates {
    /// Timeout of reads.
    pub timeout: Option<Time>,
    /// Network with the faults of its links, if links can fail.
    star: Option<Topology>,
    /// Time from which on the link of each node is disabled, because a block was corrupted on the link (§3.3).
    disabled: Vec<Time>,
    /// State of each message, by id.
    marks: Vec<LossMarks>,
}

#[derive(Clone, Copy, Default)]
struct LossMarks {
    /// Whether the message is one of the active messages of its pair.
    active: bool,
    lost: bool,
}

impl Fates {
    /// Creates the state for `nodes` nodes, without faults.
    pub(super) fn new(nodes: u32, timeout: Option<Time>) -> Fates {
        Fates { timeout, star: None, disabled: vec![Time::MAX; nodes as usize], marks: Vec::new() }
    }

    /// Adds the faults of this star.
    pub(super) fn on(self, star: Topology) -> Fates {
        Fates { star: Some(star), ..self }
    }

    /// Returns whether blocks that cross a link at these times are lost. Disables the link if the blocks are corrupted.
    pub(super) fn loses(&mut self, link: LinkId, crossing: Departure) -> bool {
        let Some(star) = &self.star else { return false };
        let (LinkId::Host(node) | LinkId::Port(node)) = link;
        let disabled = &mut self.disabled[node as usize];
        let faults = star.faults().expect("a star that fails");
        if faults.corrupts(star, link, crossing) {
            *disabled = crossing.first.min(*disabled);
        }
        *disabled <= crossing.last || faults.is_down(star, link, crossing)
    }

    /// Marks a message as active.
    pub(super) fn announced(&mut self, id: MessageId) {
        self.mark(id).active = true;
    }

    /// Ends the active state of a message, and returns whether the message was active.
    pub(super) fn released(&mut self, id: MessageId) -> bool {
        std::mem::take(&mut self.mark(id).active)
    }

    /// Marks a message as lost.
    pub(super) fn set_lost(&mut self, id: MessageId) {
        self.mark(id).lost = true;
    }

    /// Returns whether a part of the message was lost.
    pub(super) fn is_lost(&self, id: MessageId) -> bool {
        self.marks.get(id.index()).is_some_and(|marks| marks.lost)
    }

    fn mark(&mut self, id: MessageId) -> &mut LossMarks {
        if self.marks.len() <= id.index() {
            self.marks.resize(id.index() + 1, LossMarks::default());
        }
        &mut self.marks[id.index()]
    }
}

impl Edm {
    /// Gives the links the faults of this star.
    ///
    /// # Errors
    /// If there is background traffic, which would continue forever after messages are lost.
    pub fn with_faults(mut self, star: &Topology, config: &EdmConfig) -> Result<Edm, SetupError> {
        if let (Some(frames), Some(_)) = (config.background, star.faults()) {
            let rule = "is left out where links fail";
            return Err(SetupError::new("fabric.background", rule, format!("a load of {}", frames.load)));
        }
        if self.blocks.is_some() && star.faults().is_some() {
            return Err(SetupError::new("fabric.wire", "is \"payload\" where links fail", "blocks"));
        }
        // §3.3: everything is mirrored to a second switch, and the first copy counts. Departure: the second network does not fail, and the
        // two networks have the same timing.
        if star.faults().is_some() && !config.backup {
            let fates = self.fates.take().unwrap_or_else(|| Fates::new(star.nodes(), None));
            self.fates = Some(fates.on(star.clone()));
        }
        Ok(self)
    }

    /// Returns whether blocks that cross a link at this time are lost.
    pub(super) fn loses(&mut self, link: LinkId, first: Time, length: Time) -> bool {
        let Some(fates) = &mut self.fates else { return false };
        fates.loses(link, Departure { first, last: first + length })
    }

    /// Counts the loss of a part of a message, and marks the whole message as lost.
    pub(super) fn lose<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        id: MessageId,
        kind: PacketKind,
        bytes: u64,
    ) {
        let message = *core.message(id);
        core.acted(Mechanism::Fault);
        core.dropped(id, bytes, || match kind {
            PacketKind::Data => ObservedPacket::new(kind, message.data_src(), message.data_dst()),
            PacketKind::Grant => ObservedPacket::new(kind, message.data_dst(), message.data_src()),
            _ => ObservedPacket::new(kind, message.src, message.dst),
        });
        if let Some(fates) = &mut self.fates {
            fates.set_lost(id);
        }
    }
}
