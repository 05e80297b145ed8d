//! Weights, priorities and demands of flows. Rules of the rack's operator set them by the flows' source and destination (§3.3.2: tenants
//! and deadlines map to weights and priorities).

use super::Routing;
use super::rates::Requirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Rate, Time};

/// Operator's rule for the flows between certain nodes. A field that the rule leaves out does not change the corresponding term of the
/// flow.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Sources of the flows to which the rule applies. Default: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src: Option<Vec<u32>>,
    /// Destinations of the flows to which the rule applies. Default: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<Vec<u32>>,
    /// Time from which the rule holds, also for flows that are already running. Default: from the beginning of the run.
    pub at: Time,
    /// Weight of a flow relative to others. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u8>,
    /// Priority of a flow. Flows of priority 0, the default, get rates before all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Rate at which the program at the source supplies bytes to a flow (§3.3.2: host-limited flows). The R2C2 nodes do not get this value;
    /// they have to estimate it. Default: all bytes are available at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<Rate>,
    /// Routing of a flow. Default: the routing of the whole fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
}

impl Rule {
    /// Returns whether the rule applies to flows between these nodes.
    pub fn matches(&self, src: u32, dst: u32) -> bool {
        let holds = |nodes: &Option<Vec<u32>>, node| nodes.as_ref().is_none_or(|nodes| nodes.contains(&node));
        holds(&self.src, src) && holds(&self.dst, dst)
    }
}

/// Terms of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Weight and priority of the flow. The demand in this field is unlimited, because R2C2 does not know the demand when a flow starts.
    pub asked: Requirements,
    pub demand: Option<Rate>,
    pub routing: Routing,
}

impl Terms {
    /// Returns the terms of a flow from `src` to `dst` under all rules that hold at `now`. If several rules set the same term, the last one
    /// in the list applies.
    pub fn from_rules(rules: &[Rule], routing: Routing, src: u32, dst: u32, now: Time) -> Terms {
        let mut terms = Terms { asked: Requirements::default(), demand: None, routing };
        for rule in rules.iter().filter(|rule| rule.at <= now && rule.matches(src, dst)) {
            terms.asked.weight = rule.weight.unwrap_or(terms.asked.weight);
            terms.asked.priority = rule.priority.unwrap_or(terms.asked.priority);
            terms.demand = rule.demand.or(terms.demand);
            terms.routing = rule.routing.unwrap_or(terms.routing);
        }
        terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_hold_from_their_time_on_each_over_those_before() {
        let rules = [
            Rule { src: Some(vec![1, 2]), weight: Some(4), ..Rule::default() },
            Rule { dst: Some(vec![7]), priority: Some(2), weight: Some(3), ..Rule::default() },
            Rule { at: Time::from_us(5), routing: Some(Routing::Vlb), ..Rule::default() },
        ];
        let of = |src, dst, us| Terms::from_rules(&rules, Routing::Spraying, src, dst, Time::from_us(us));
        assert_eq!(
            of(0, 3, 4),
            Terms { asked: Requirements::default(), demand: None, routing: Routing::Spraying }
        );
        assert_eq!((of(1, 3, 4).asked.weight, of(1, 7, 4).asked.weight), (4, 3));
        assert_eq!((of(2, 7, 5).asked.priority, of(2, 7, 5).routing), (2, Routing::Vlb));
    }
}
