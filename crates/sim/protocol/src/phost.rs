//! pHost: distributed near-optimal datacenter transport over commodity network fabric (Gao et al.,
//! CoNEXT 2015).
//!
//! A source announces a transfer by a request to send and starts on its free tokens; its receiver grants tokens for the
//! rest, one per packet time of its link, to the transfer with the least left (§3.2, §3.3). A source that does not use
//! its tokens is passed over for a while.

use crate::receiver_driven::{Grants, LocalScheduler, Scheduler, TransferId};
use crate::turns::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of pHost (§4.1, table "default").
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets that a transfer may send without a token, and tokens that may be unused before its source is passed
    /// over. Default: one bandwidth-delay product.
    pub free_tokens: Option<u32>,
    /// Time for which a source may keep a token once it could use it. Default: the time of 1.5 full packets.
    pub token_expiry: Option<Time>,
    /// Time for which a source that does not use its tokens is passed over; then missing packets are asked for again.
    /// Default: three round trips of the empty network (§4.1), if the receiver's link was idle since they could have come.
    /// While it was not, and while segments on free tokens are awaited: the same, or one round trip and the time that a
    /// full port needs to empty if that is longer.
    pub timeout: Option<Time>,
}

/// Timeouts in a row after which a receiver waits ever longer for a source that sends nothing for its tokens.
///
/// Departure: the paper asks again after each three round trips. Where sources have more to send than their links carry,
/// most tokens expire unused, and so many would be made, of all that waits at once, that nothing else got through.
pub const STEADY: u32 = 8;

/// Scheduler of a receiver's next token.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Transfers with something left to grant, whose source is not passed over.
    pending: Turns,
    /// Tokens that a source may have unused.
    limit: u32,
    next_at: Time,
}

impl Tokens {
    /// Creates a scheduler without transfers; `limit` is the number of tokens that a source may have unused.
    pub fn new(limit: u32) -> Tokens {
        Tokens { pending: Turns::default(), limit, next_at: Time::ZERO }
    }
}

/// Rank of segments that need a token. Transfers that need no more than their free tokens rank before it.
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
        // §3.3: a source that has a bandwidth-delay product of tokens and answers none is passed over, until data comes
        // or the tokens are lost. Overtaken tokens have expired: they are granted again after all others.
        let size = grants.size().filter(|_| grants.unanswered() < self.limit);
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(&self, now: Time, _outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)> {
        let first = self.pending.first().filter(|_| now >= self.next_at);
        first.map(|transfer| (transfer, SCHEDULED))
    }
}
