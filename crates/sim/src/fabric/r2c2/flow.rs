//! One transfer: both its ends, and when they act.

use unrack_protocol::r2c2::Routing;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::demand::Demand;
use unrack_protocol::r2c2::packet::Broadcast;
use unrack_protocol::r2c2::transfer;
use unrack_protocol::segments::SegmentSet;
use unrack_protocol::silence::Silence;
use unrack_units::{Bytes, Rate, Time};
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
    pub silence: Silence,
    pub host: Host,
    pub demand: Demand,
    /// Bytes on the wire since its node computed rates.
    pub sent: u64,
}

impl Sender {
    pub fn new(bucket: TokenBucket, segments: u32, (host, demand): (Host, Demand)) -> Sender {
        let transfer = transfer::Sender::new(segments);
        Sender { transfer, bucket, turn: 0, alarm: 0, silence: Silence::default(), host, demand, sent: 0 }
    }
}

/// The program at the source: what it has given to be sent, by time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    /// `None`: all of it.
    rate: Option<Rate>,
    since: Time,
    /// Given before.
    before: u64,
}

impl Host {
    pub fn new(rate: Option<Rate>, now: Time) -> Host {
        Host { rate, since: now, before: 0 }
    }

    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// At another rate from now on.
    pub fn at(self, rate: Option<Rate>, now: Time) -> Host {
        Host { rate, since: now, before: self.given(u64::MAX, now) }
    }

    /// Of so many bytes, those that it has given by now.
    pub fn given(&self, bytes: u64, now: Time) -> u64 {
        let Some(rate) = self.rate else { return bytes };
        let since = u128::from((now - self.since).as_ps()) * u128::from(rate.as_bps()) / 8_000_000_000_000;
        bytes.min(self.before.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }

    /// When it has given so many bytes. `None`: from the start.
    pub fn has(&self, bytes: u64) -> Option<Time> {
        let missing = bytes.saturating_sub(self.before);
        let time = self.rate?.transmit(Bytes::new(missing));
        Some(Time::from_ps(self.since.as_ps().saturating_add(time.as_ps())))
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
