//! pHost: distributed near-optimal datacenter transport over commodity network fabric (Gao et al.,
//! CoNEXT 2015).
//!
//! A source announces a transfer by a request to send and starts on its free tokens; its receiver gives
//! tokens for the rest, one each time a packet could arrive, to the transfer with the least left
//! (§3.2, §3.3). A source that does not use its tokens is passed over for a while.

use crate::receiver_driven::{Grants, Scheduler, TransferId};
use crate::turns::Turns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Parameters of pHost (§4.1, table "default").
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Packets that a transfer may send unasked, and tokens that may be unused before its source is passed
    /// over. Default: one bandwidth-delay product.
    pub free_tokens: Option<u32>,
    /// How long a source may keep a token from when it can use it. Default: the time of 1.5 full packets.
    pub token_expiry: Option<Time>,
    /// How long a source that does not use its tokens is passed over; then what has not arrived is asked for
    /// again. Default: three round trips of the empty network, or one and the time that a full port needs to empty.
    pub timeout: Option<Time>,
}

/// Who gets a receiver's next token.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// Transfers of which something is to be granted, and whose source is not passed over.
    pending: Turns,
    /// Tokens that a source may have unused.
    limit: u32,
    next_at: Time,
}

impl Tokens {
    pub fn new(limit: u32) -> Tokens {
        Tokens { pending: Turns::default(), limit, next_at: Time::ZERO }
    }
}

/// Of segments that a token was needed for. Those of transfers that free tokens are enough for go before.
const SCHEDULED: u8 = 2;

/// The rank of a segment sent on a free token.
pub fn free_rank(segments: u32, free_tokens: u32) -> u8 {
    if segments <= free_tokens { SCHEDULED - 1 } else { SCHEDULED }
}

impl Scheduler for Tokens {
    fn could_grant(&self, grants: &Grants) -> bool {
        grants.is_pending() && grants.unanswered() < self.limit
    }

    fn update(&mut self, transfer: TransferId, grants: &mut Grants) {
        // §3.3: a source that has a bandwidth-delay product of tokens and answers none is passed over, until
        // data comes or the tokens are lost. Tokens that were overtaken have expired: they are given again
        // when all others have been.
        let size = grants.size().filter(|_| grants.unanswered() < self.limit);
        self.pending.set(transfer, &mut grants.place, size);
    }

    fn poll(&self, now: Time, _outstanding: impl Fn(TransferId) -> u32) -> Option<(TransferId, u8)> {
        let first = self.pending.first().filter(|_| now >= self.next_at);
        first.map(|transfer| (transfer, SCHEDULED))
    }

    fn granted(&mut self, now: Time, pace: Time) {
        self.next_at = now + pace;
    }

    fn next(&self) -> Option<Time> {
        (!self.pending.is_empty()).then_some(self.next_at)
    }
}
