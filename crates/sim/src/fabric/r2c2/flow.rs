//! One transfer: both its ends, and when they act.

use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::demand::Demand;
use unrack_protocol::r2c2::host::Host;
use unrack_protocol::r2c2::packet::Broadcast;
use unrack_protocol::r2c2::transfer::{self, Patience};
use unrack_protocol::segments::SegmentSet;
use unrack_workload::MessageId;

/// One end sends, the other receives.
pub(super) struct Flow {
    pub message: MessageId,
    pub role: Role,
    pub src: u32,
    pub dst: u32,
    pub bytes: u64,
    /// What all nodes were told of it.
    pub told: Broadcast,
    /// That it should have, if the topology has it.
    pub routing: Routing,
    pub sender: Sender,
    pub receiver: Receiver,
    /// Packets of it under way.
    pub references: u32,
    pub is_given_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its end is the end of the message.
    Data,
    /// Its end opens the answer.
    Request,
}

/// What sends it, and what holds it back.
pub(super) struct Sender {
    pub transfer: transfer::Sender,
    pub bucket: TokenBucket,
    /// Names the one event that sends its next packet, and the one timer. 0: there is none.
    pub turn: u32,
    pub alarm: u32,
    pub patience: Patience,
    pub host: Host,
    pub demand: Demand,
    /// Bytes on the wire since its node computed rates, or looked at its demand.
    pub sent: u64,
    /// By the controller, if there is one.
    pub given_kbps: Option<u32>,
}

impl Sender {
    pub fn new(
        bucket: TokenBucket,
        segments: u32,
        patience: Patience,
        (host, demand): (Host, Demand),
    ) -> Sender {
        let transfer = transfer::Sender::new(segments);
        Sender { transfer, bucket, turn: 0, alarm: 0, patience, host, demand, sent: 0, given_kbps: None }
    }
}

/// What its destination has.
pub(super) struct Receiver {
    got: SegmentSet,
    segments: u32,
    /// New ones since the last acknowledgement.
    unsaid: u32,
}

impl Receiver {
    pub fn new(segments: u32) -> Receiver {
        Receiver { got: SegmentSet::new(segments), segments, unsaid: 0 }
    }

    /// A segment has come. Whether it is new, and whether an acknowledgement is due.
    pub fn take(&mut self, segment: u32, ack_every: u32) -> (bool, bool) {
        let is_new = self.got.insert(segment);
        self.unsaid += 1;
        let is_due = !is_new || self.is_complete() || self.unsaid >= ack_every;
        if is_due {
            self.unsaid = 0;
        }
        (is_new, is_due)
    }

    pub fn is_complete(&self) -> bool {
        self.got.count() == self.segments
    }

    /// All below are there, and of the 64 from there on those of the mask.
    pub fn acknowledgement(&self) -> (u32, u64) {
        let next = self.got.first_absent(0).min(self.segments);
        let beyond = (0..64).filter(|bit| next + bit < self.segments && self.got.contains(next + bit));
        (next, beyond.fold(0, |mask, bit| mask | 1 << bit))
    }
}
