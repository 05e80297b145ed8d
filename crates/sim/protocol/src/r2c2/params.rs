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
    /// One node, the controller, learns of all flows, computes their rates and sends the rates back to the flows' sources. The paper
    /// compares R2C2 with this scheme (§5.2, fig. 19).
    Central,
}

/// Rate at which a new flow sends until a rate is computed for it. The paper does not specify this rate; it says only "the sender starts
/// transmitting packets immediately" (§3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstRate {
    /// Rate that the flow would get if it were the only flow in the rack, but at most the rate of the source's fastest link.
    #[default]
    Link,
    /// Rate that the flow would get if it were the only flow in the rack. This may exceed the rate of one link, because the flow can use
    /// all links that lead to its destination.
    Alone,
}

/// Parameters of R2C2.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Routing of all flows. Default spraying (§5.2).
    pub routing: Routing,
    /// Fraction of each link's capacity that is not allocated to flows. Default 5% (§5).
    pub headroom: Fraction,
    /// Interval between two computations of rates by a node. A flow takes part in these computations once it is older than one interval.
    /// Default 500 us (§5.2).
    pub interval: Time,
    /// Number of broadcast trees of each source. Default 4; the paper says "multiple" (§3.2).
    pub trees: u8,
    /// Number of packets that a receiver acknowledges together. Default 16; the paper gives no value because it leaves reliability open
    /// (§6).
    pub ack_every: u32,
    /// Minimum retransmission timeout of a flow, which starts when the source has sent every segment that it may send. The source derives
    /// the timeout from measured round trips, and doubles it each time that it expires
    /// ([`RetransmissionTimer`](super::transfer::RetransmissionTimer)). Default 1 ms.
    pub timeout: Time,
    /// Weight of a new observation in the moving average of a flow's demand (eq. 1). A source makes one observation per interval. Default
    /// 1/2; the paper gives no value.
    pub demand_gain: Fraction,
    /// Rate at which a new flow sends until a rate is computed for it. Default: the rate that the flow would get if it were alone, but at
    /// most the rate of the source's fastest link.
    #[schemars(extend("x-unhashed" = "default"))]
    pub first_rate: FirstRate,
    /// Rules that set the weights, priorities and demands of flows by their source and destination. Default: no rules, so that all flows
    /// are equal.
    #[schemars(extend("x-unhashed" = "default"))]
    pub rules: Vec<Rule>,
    /// Which nodes compute rates. Default: every node computes the rates of its own flows.
    #[schemars(extend("x-unhashed" = "default"))]
    pub control: RateControl,
    /// Node that computes the rates of all flows, if rate control is central. Default 0.
    #[schemars(extend("x-unhashed" = "default"))]
    pub controller: u32,
    /// Periodic selection of better routings for running flows (§3.4). Default: flows keep their routings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
}

impl Params {
    /// Returns the interval between keep-alives in a live rack. It is ten times `timeout`, which is far longer than a packet takes. The
    /// minimum is 20 ms, so that the processes of a rack without flows can sleep; the maximum is 1 s.
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
