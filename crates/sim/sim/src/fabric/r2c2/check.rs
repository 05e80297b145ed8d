//! Checks of parameters against the network.

use std::borrow::Cow;
use unrack_engine::error::SetupError;
use unrack_protocol::r2c2::selection::Selection;
use unrack_protocol::r2c2::{Params, RateControl, Routing};
use unrack_rack::graph::Graph;
use unrack_units::Time;

/// Checks that parameters are in range and fit a network.
pub(super) fn check(params: &Params, graph: &Graph) -> Result<(), SetupError> {
    let routing = |key: Cow<'static, str>, routing: Routing| {
        routing
            .check(graph)
            .map_err(|why| SetupError::new(key, "fits the topology", format!("{routing} ({why})")))
    };
    routing("fabric.routing".into(), params.routing)?;
    let positive = [("fabric.interval", params.interval), ("fabric.timeout", params.timeout)];
    if let Some((key, time)) = positive.into_iter().find(|(_, time)| *time == Time::ZERO) {
        return Err(SetupError::new(key, "is above 0", time));
    }
    if params.trees == 0 {
        return Err(SetupError::new("fabric.trees", "is at least 1", 0));
    }
    if !(1..=64).contains(&params.ack_every) {
        return Err(SetupError::new("fabric.ack_every", "is from 1 to 64", params.ack_every));
    }
    if params.headroom.get() >= 1.0 {
        return Err(SetupError::new("fabric.headroom", "leaves something to flows", params.headroom));
    }
    if params.demand_gain.get() <= 0.0 {
        return Err(SetupError::new("fabric.demand_gain", "is above 0", params.demand_gain));
    }
    if params.controller >= graph.nodes() {
        let of = format!("node {} of {}", params.controller, graph.nodes());
        return Err(SetupError::new("fabric.controller", "is a node of the network", of));
    }
    if params.control == RateControl::Central && params.selection.is_some() {
        let rule =
            "is \"decentralized\" with fabric.selection: other nodes know of no flows to choose routings for";
        return Err(SetupError::new("fabric.control", rule, "central"));
    }
    if let Some(Selection { period, routings, search, .. }) = &params.selection {
        if *period == Time::ZERO {
            return Err(SetupError::new("fabric.selection.period", "is above 0", period));
        }
        if routings.is_empty() {
            return Err(SetupError::new("fabric.selection.routings", "names at least one", "none"));
        }
        routings.iter().try_for_each(|of| routing("fabric.selection.routings".into(), *of))?;
        if !(1..=10_000).contains(&search.population) {
            let key = "fabric.selection.search.population";
            return Err(SetupError::new(key, "is from 1 to 10000", search.population));
        }
        let shares = [
            ("fabric.selection.search.mutation", search.mutation),
            ("fabric.selection.search.survivors", search.survivors),
        ];
        if let Some((key, share)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(SetupError::new(key, "is from 0 to 1", share));
        }
    }
    for (n, rule) in params.rules.iter().enumerate() {
        let of_rule = |key: &str| format!("fabric.rules.{n}.{key}");
        let nodes = [("src", &rule.src), ("dst", &rule.dst)];
        for (key, node) in
            nodes.into_iter().flat_map(|(key, nodes)| nodes.iter().flatten().map(move |n| (key, n)))
        {
            if *node >= graph.nodes() {
                let of = format!("node {node} of {}", graph.nodes());
                return Err(SetupError::new(of_rule(key), "names nodes of the network", of));
            }
        }
        if rule.weight == Some(0) {
            return Err(SetupError::new(of_rule("weight"), "is from 1 to 255", 0));
        }
        if let Some(demand) = rule.demand.filter(|demand| demand.as_bps() < 1_000) {
            return Err(SetupError::new(of_rule("demand"), "is at least 1 Kbps", demand));
        }
        if let Some(own) = rule.routing {
            routing(of_rule("routing").into(), own)?;
        }
    }
    Ok(())
}
