//! Weights, priorities and demands of flows, by their end nodes. An operator's rules set them (§3.3.2: tenants and
//! deadlines map to weights and priorities).

use super::Routing;
use super::rates::Requirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Rate, Time};

/// Rule for flows between some nodes. Fields that are left out do not change the flow's terms.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Sources of the flows to which the rule applies. Default: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src: Option<Vec<u32>>,
    /// Destinations of the flows to which the rule applies. Default: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<Vec<u32>>,
    /// Time from which the rule holds, also for running flows. Default: from the beginning.
    pub at: Time,
    /// Weight of a flow relative to others. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u8>,
    /// Priority of a flow. 0 is the default and is served first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Rate at which the source's program supplies bytes (§3.3.2: host-limited flows). Nodes do not get this value,
    /// because R2C2 estimates it. Default: all bytes are available at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<Rate>,
    /// Routing of a flow. Default: the fabric's.
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
    /// Weight and priority, with an unlimited demand because R2C2 does not know the demand when a flow starts.
    pub asked: Requirements,
    pub demand: Option<Rate>,
    pub routing: Routing,
}

impl Terms {
    /// Returns the terms under all rules that hold at `now`. A later rule overrides earlier ones.
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
