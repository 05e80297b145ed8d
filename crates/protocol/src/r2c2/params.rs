//! What can be set.

use super::Routing;
use super::selection::Selection;
use super::terms::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Fraction, Time};

/// Who computes rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// Every node, from broadcasts of all flows.
    #[default]
    Decentralized,
    /// One node, which is told of flows and sends the rates back: what R2C2 is compared with (§5.2, fig. 19).
    Central,
}

/// At what rate a flow sends of which no rate is known yet. The paper: "the sender starts transmitting packets immediately"
/// (§3.3.2), and not how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstRate {
    /// What it would get alone, but no more than the source's fastest link has.
    #[default]
    Link,
    /// What it would get alone, by all links that lead to its destination.
    Alone,
}

/// Parameters of R2C2.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Of all flows. Default spraying (§5.2).
    pub routing: Routing,
    /// What of each link is not given to flows. Default 5% (§5).
    pub headroom: Fraction,
    /// Rates are computed once in this time, of flows that are older than it. Default 500 us (§5.2).
    pub interval: Time,
    /// Broadcast trees of each source. Default 4; the paper says "multiple" (§3.2).
    pub trees: u8,
    /// A receiver acknowledges so many packets at once. Default 16; not of the paper, which has no reliability (§6).
    pub ack_every: u32,
    /// Silence after all was sent, after which what is not acknowledged is sent again, at the least: it follows measured
    /// round trips, and doubles ([`Patience`](super::transfer::Patience)). Default 1 ms.
    pub timeout: Time,
    /// Weight of what a sender sees of its demand in an interval, in the moving average (eq. 1). Default 1/2; the paper
    /// says none.
    pub demand_gain: Fraction,
    /// At which a flow sends until it is given a rate. Default that of a link.
    #[schemars(extend("x-unhashed" = "default"))]
    pub first_rate: FirstRate,
    /// What flows ask for, by the nodes between which they are. Default: all the same.
    #[schemars(extend("x-unhashed" = "default"))]
    pub rules: Vec<Rule>,
    /// Who computes rates. Default every node, those of its flows.
    #[schemars(extend("x-unhashed" = "default"))]
    pub control: Control,
    /// The node that computes the rates of all flows, if one does. Default 0.
    #[schemars(extend("x-unhashed" = "default"))]
    pub controller: u32,
    /// Other routings for flows under way (§3.4). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
}

impl Params {
    /// How often a live rack's nodes let their neighbours hear of them. Ten time-outs: far beyond what a packet takes; and
    /// from 20 ms, so that a rack without flows sleeps, to 1 s.
    pub fn keep_alive(&self) -> Time {
        Time::from_ps(self.timeout.as_ps().saturating_mul(10))
            .clamp(Time::from_us(20_000), Time::from_us(1_000_000))
    }
}

impl Default for Params {
    fn default() -> Params {
        Params {
            routing: Routing::Spraying,
            headroom: Fraction::new(0.05).expect("a fraction"),
            interval: Time::from_us(500),
            trees: 4,
            ack_every: 16,
            timeout: Time::from_us(1_000),
            demand_gain: Fraction::new(0.5).expect("a fraction"),
            first_rate: FirstRate::default(),
            rules: Vec::new(),
            control: Control::default(),
            controller: 0,
            selection: None,
        }
    }
}
