//! "Mega" messages (§3.1.2): waiting messages of one pair of nodes are sent together, under one notification.
//!
//! No message is delayed in order to be batched. Only messages that wait until one of the X active messages ends are batched. Each message
//! of a batch is complete when its last burst has arrived.

use super::Event;
use super::host::Announcements;
use unrack_engine::events::{Core, Observer};
use unrack_workload::{Message, MessageId};

pub(super) struct Batches {
    /// Maximum size of a batch, in bytes.
    most: u64,
    /// Place of each message in its batch, by message.
    members: Vec<BatchMember>,
}

#[derive(Clone, Copy)]
struct BatchMember {
    /// Next message of the batch.
    next: u32,
    /// Bytes of the whole batch. Only set in its first member, like `current` and `left`.
    total: u64,
    /// Member that is on the wire now.
    current: u32,
    /// Bytes of that member that are still to come.
    left: u64,
}

const NONE: u32 = u32::MAX;

impl Batches {
    /// Creates batches of at most `most` bytes.
    pub(super) fn new(most: u64) -> Batches {
        Batches { most, members: Vec::new() }
    }

    /// Returns the bytes that are announced together with this message.
    pub(super) fn bytes(&self, first: MessageId, message: &Message) -> u64 {
        self.members.get(first.index()).map_or(message.bytes, |member| match member.total {
            0 => message.bytes,
            total => total,
        })
    }

    /// Adds the messages that wait behind `first` to its batch, as far as they fit.
    pub(super) fn collect<O: Observer>(
        &mut self,
        core: &Core<Event, O>,
        first: MessageId,
        announcements: &mut Announcements,
    ) {
        let message = *core.message(first);
        let (mut total, mut last) = (message.bytes, first);
        while let Some(next) = announcements.first_waiting(&message) {
            let more = core.message(next);
            let fits = total + more.bytes <= self.most;
            if message.kind.is_answered() || more.kind.is_answered() || !fits {
                break;
            }
            announcements.drop_first_waiting(&message);
            total += more.bytes;
            self.member(last).next = next.0;
            last = next;
        }
        self.member(first).total = total;
    }

    /// Records that `bytes` of a batch have arrived. Calls `ends` for each member that ends within these bytes, with the number of these
    /// bytes up to its end.
    pub(super) fn pass<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        first: MessageId,
        bytes: u64,
        mut ends: impl FnMut(&mut Core<Event, O>, MessageId, u64),
    ) {
        let BatchMember { mut current, mut left, .. } = *self.member(first);
        if current == NONE {
            (current, left) = (first.0, core.message(first).bytes);
        }
        let mut at = 0;
        while left <= bytes - at {
            at += left;
            ends(core, MessageId(current), at);
            current = self.member(MessageId(current)).next;
            if current == NONE {
                return;
            }
            left = core.message(MessageId(current)).bytes;
        }
        let leader = self.member(first);
        (leader.current, leader.left) = (current, left - (bytes - at));
    }

    fn member(&mut self, id: MessageId) -> &mut BatchMember {
        if self.members.len() <= id.index() {
            let alone = BatchMember { next: NONE, total: 0, current: NONE, left: 0 };
            self.members.resize(id.index() + 1, alone);
        }
        &mut self.members[id.index()]
    }
}
