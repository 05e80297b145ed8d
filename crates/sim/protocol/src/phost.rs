//! pHost: distributed near-optimal datacenter transport over commodity network fabric (Gao et al.,
//! CoNEXT 2015).
//!
//! A source announces a transfer with a request to send and starts to send on its free tokens. Its receiver grants
//! tokens for the rest, one per packet time of its link, to the transfer with the fewest segments left (§3.2, §3.3).
//! The receiver passes over a source for a while if that source does not use its tokens.

use crate::receiver_driven::{Grants, LocalScheduler, Scheduler, TransferId};
use crate::turns::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of pHost (§4.1, table "default").
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets that a transfer may send without a token. This is also the number of tokens that a source may leave
    /// unused before the receiver passes it over. Default: one bandwidth-delay product.
    pub free_tokens: Option<u32>,
    /// Time after which a token expires, counted from when the source could have used it. Default: the time of 1.5
    /// full packets.
    pub token_expiry: Option<Time>,
    /// Time for which the receiver passes over a source that does not use its tokens; afterwards, the receiver asks
    /// again for the missing packets. Default: three round trips of the empty network (§4.1), provided that the
    /// receiver's link has been idle since the packets could have arrived. If the link was busy, or segments on free
    /// tokens are still expected, the default is the longer of this time and one round trip plus the time that a full
    /// port needs to empty.
    pub timeout: Option<Time>,
}

/// Number of timeouts in a row after which a receiver waits ever longer for a source that does not answer its tokens.
///
/// Departure: in the paper, the receiver asks again after every three round trips. However, where sources have more to
/// send than their links can carry, most tokens expire unused. The receivers would then grant so many tokens, for all
/// waiting packets at once, that no other packet would get through.
pub const STEADY: u32 = 8;

/// Scheduler that chooses the transfer for a receiver's next token.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Transfers with segments left to grant whose source is not passed over.
    pending: Turns,
    /// Number of tokens that a source may leave unused.
    limit: u32,
    next_at: Time,
}

impl Tokens {
    /// Creates a scheduler without transfers. `limit` is the number of tokens that a source may leave unused.
    pub fn new(limit: u32) -> Tokens {
        Tokens { pending: Turns::default(), limit, next_at: Time::ZERO }
    }
}

/// Rank of segments that need a token. A transfer that needs only its free tokens has a better rank.
const SCHEDULED: u8 = 2;

/// Returns the rank of a segment sent on a free token.
pub fn free_rank(segments: u32, free_tokens: u32) -> u8 {
    if segments <= free_tokens { SCHEDULED - 1 } else { SCHEDULED }
}

impl Scheduler for Tokens {
    fn could_grant(&self, grants: &Grants) -> bool {
        grants.is_pending() && grants.unanswered() < self.limit
    }

    fn granted(&mut self, now: Time, pace: Time) {
        self.next_at = now + pace;
    }

    fn next(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.next_at)
    }
}

impl LocalScheduler for Tokens {
    fn update(&mut self, transfer: TransferId, grants: &mut Grants) {
        // §3.3: a source that holds a bandwidth-delay product of tokens and answers none of them is passed over until
        // data arrives or the tokens count as lost. Overtaken tokens have expired; their segments are granted again
        // after all others.
        let size = grants.size().filter(|_| grants.unanswered() < self.limit);
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(&self, now: Time, _outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)> {
        let first = self.pending.first().filter(|_| now >= self.next_at);
        first.map(|transfer| (transfer, SCHEDULED))
    }
}
