//! Parameters of R2C2.

use super::Routing;
use super::selection::Selection;
use super::terms::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Fraction, Time};

/// Which nodes compute rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateControl {
    /// Every node computes the rates of its own flows, from broadcasts of all flows.
    #[default]
    Decentralized,
    /// One node learns of all flows and sends their rates back. R2C2 is compared with this scheme (§5.2, fig. 19).
    Central,
}

/// Rate of a flow before its first computed rate. The paper does not specify it; "the sender starts transmitting
/// packets immediately" (§3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstRate {
    /// Rate that the flow would get if it were alone, but at most the rate of the source's fastest link.
    #[default]
    Link,
    /// Rate that the flow would get if it were alone, over all links that lead to its destination.
    Alone,
}

/// Parameters of R2C2.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Routing of all flows. Default spraying (§5.2).
    pub routing: Routing,
    /// Share of each link that is not given to flows. Default 5% (§5).
    pub headroom: Fraction,
    /// Interval between computations of rates. A flow counts once it is older than one interval. Default 500 us
    /// (§5.2).
    pub interval: Time,
    /// Broadcast trees of each source. Default 4; the paper says "multiple" (§3.2).
    pub trees: u8,
    /// Number of packets that a receiver acknowledges together. Default 16; not in the paper, which has no reliability
    /// (§6).
    pub ack_every: u32,
    /// Minimum retransmission timeout, counted from when everything was sent. The timeout follows measured round trips
    /// and doubles after each timeout ([`RetransmissionTimer`](super::transfer::RetransmissionTimer)). Default 1 ms.
    pub timeout: Time,
    /// Weight of a new observation in the moving average of a flow's demand (eq. 1), one observation per interval.
    /// Default 1/2; the paper gives none.
    pub demand_gain: Fraction,
    /// Rate of a flow until one is computed for it. Default: the rate that it would get alone, but at most that of a
    /// link.
    #[schemars(extend("x-unhashed" = "default"))]
    pub first_rate: FirstRate,
    /// Weights, priorities and demands of flows, by their end nodes. Default: the same for all flows.
    #[schemars(extend("x-unhashed" = "default"))]
    pub rules: Vec<Rule>,
    /// Which nodes compute rates. Default: every node, for its own flows.
    #[schemars(extend("x-unhashed" = "default"))]
    pub control: RateControl,
    /// Node that computes the rates of all flows, if rate control is central. Default 0.
    #[schemars(extend("x-unhashed" = "default"))]
    pub controller: u32,
    /// Change of the routings of running flows (§3.4). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
}

impl Params {
    /// Returns the interval of keep-alives in a live rack. It is ten times `timeout`, far longer than a packet takes,
    /// and limited to at least 20 ms, so that a rack without flows can sleep, and at most 1 s.
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
            control: RateControl::default(),
            controller: 0,
            selection: None,
        }
    }
}
