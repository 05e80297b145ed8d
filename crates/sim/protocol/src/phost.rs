//! pHost: distributed near-optimal datacenter transport over commodity network fabric (Gao et al.,
//! CoNEXT 2015).
//!
//! A source announces a transfer with a request to send, and at once sends the first packets, for which it has free tokens. For the other
//! packets, the receiver sends tokens. It sends one token in the time that a packet takes on its link, always for the transfer with the
//! fewest segments left (§3.2, §3.3). If a source does not use its tokens, the receiver skips this source for a while.

use crate::receiver_driven::{Grants, LocalScheduler, Scheduler, TransferId};
use crate::turns::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of pHost (§4.1, table "default").
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of packets of a transfer that the source may send without a token from the receiver. This is also the number of tokens that a
    /// source may leave unused before the receiver skips this source. Default: one bandwidth-delay product.
    pub free_tokens: Option<u32>,
    /// Time after which a token expires. It runs from the earliest time at which the source can use the token: when the token has arrived,
    /// and the packets of earlier tokens could have left. Default: the time that 1.5 full packets take on the link.
    pub token_expiry: Option<Time>,
    /// Time for which the receiver skips a source that does not use its tokens. Afterwards, the receiver sends tokens for the missing
    /// packets again. Default: three round trips of the empty network (§4.1), if the receiver's link has been idle since the packets could
    /// have arrived. If the link was busy, or if segments sent on free tokens are still expected, the default is at least one round trip
    /// plus the time that a switch port with a full queue needs to drain.
    pub timeout: Option<Time>,
}

/// Number of timeouts in a row after which the receiver doubles its timeout each time, if a source does not answer tokens.
///
/// Departure: in the paper, the receiver sends tokens again every three round trips, without end. However, if sources have more to send
/// than their links can carry, most tokens expire unused. The receivers would then send so many tokens, for all waiting packets at once,
/// that no other packet would get through.
pub const STEADY: u32 = 8;

/// Scheduler of a receiver: it chooses the transfer that gets the receiver's next token.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Transfers that have segments without a token and whose source the receiver does not currently skip.
    pending: Turns,
    /// Number of tokens that a source may leave unused before the receiver skips this source.
    limit: u32,
    next_at: Time,
}

impl Tokens {
    /// Creates a scheduler without transfers. `limit` is the number of tokens that a source may leave unused before the receiver skips this
    /// source.
    pub fn new(limit: u32) -> Tokens {
        Tokens { pending: Turns::default(), limit, next_at: Time::ZERO }
    }
}

/// Rank of segments that are sent on a token, where a lower rank is better. The segments of a transfer that fits into its free tokens have
/// a better rank.
const SCHEDULED: u8 = 2;

/// Returns the rank of a segment that a source sends on a free token. A lower rank is better.
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
        // §3.3: if a source has a bandwidth-delay product of tokens and answers none of them, the receiver skips this source until data
        // arrives or the tokens count as lost. Tokens that later ones have overtaken do not count here: they have expired, and their
        // segments get new tokens after all other segments.
        let size = grants.size().filter(|_| grants.unanswered() < self.limit);
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(&self, now: Time, _outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)> {
        let first = self.pending.first().filter(|_| now >= self.next_at);
        first.map(|transfer| (transfer, SCHEDULED))
    }
}
