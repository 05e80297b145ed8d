//! Breakdown of one message's time, as text for people and as JSON for programs.

use serde_json::{Value, json};
use unrack_sim::observe::{Explanation, TimeSpent};
use unrack_sim::{LinkId, WaitReason};
use unrack_units::Time;
use unrack_workload::MessageId;

/// Breakdown of a message's time.
pub(crate) struct Explained {
    pub id: MessageId,
    pub explanation: Explanation,
    /// Completion time that the message would have alone.
    pub unloaded: Time,
}

impl Explained {
    /// Returns a table whose times add up to the completion time.
    pub(crate) fn text(&self) -> String {
        let Explained { id, explanation, unloaded } = self;
        let Explanation { message, submitted, completed, .. } = explanation;
        let all = *completed - *submitted;
        let mut text = format!(
            "message {}: {} of {} B, node {} to node {}, submitted at {submitted}\n\n",
            id.0,
            message.kind.name(),
            message.bytes,
            message.src,
            message.dst
        );
        for (place, time) in explanation.sums() {
            text += &row(time, all, &where_text(place));
        }
        text += &row(all, all, "in all");
        text += &format!("\nAlone on the same fabric it takes {:.3} ns.\n", unloaded.as_ns_f64());
        text
    }

    /// Returns the parts in order, as JSON.
    pub(crate) fn json(&self) -> Value {
        let Explained { id, explanation, unloaded } = self;
        let Explanation { message, submitted, completed, parts } = explanation;
        let parts = parts.iter().map(|part| {
            let (from_ns, time_ns) = (part.from.as_ns_f64(), part.time.as_ns_f64());
            let (cause, place) = (part.place.cause(), where_text(part.place));
            json!({"from_ns": from_ns, "time_ns": time_ns, "cause": cause, "where": place})
        });
        json!({
            "message": id.0, "kind": message.kind.name(), "bytes": message.bytes,
            "src": message.src, "dst": message.dst, "submitted_ns": submitted.as_ns_f64(),
            "completion_ns": (*completed - *submitted).as_ns_f64(), "unloaded_ns": unloaded.as_ns_f64(),
            "parts": parts.collect::<Vec<_>>(),
        })
    }
}

fn row(time: Time, all: Time, place: &str) -> String {
    let share = time.as_ps() as f64 / all.as_ps() as f64 * 100.0;
    format!("{:>14}  {share:5.1} %  {place}\n", format!("{:.3} ns", time.as_ns_f64()))
}

/// Describes a place.
pub(super) fn where_text(place: TimeSpent) -> String {
    match place {
        TimeSpent::HostQueue(node) => format!("node {node}: behind packets of others"),
        TimeSpent::Serialization(link) => format!("{}: its own bits", link_text(link)),
        TimeSpent::Propagation(link) => format!("{}: propagation", link_text(link)),
        TimeSpent::Switch(switch) => format!("switch {switch}: its latency"),
        TimeSpent::Node(node) => format!("node {node}: its latency"),
        TimeSpent::Queue(port) => format!("port {port}: behind other packets"),
        TimeSpent::Lost => "lost, and found out".into(),
        TimeSpent::Protocol(wait) => format!("protocol: {}", wait_text(wait)),
    }
}

fn link_text(link: LinkId) -> String {
    match link {
        LinkId::Host(node) => format!("link of node {node}"),
        LinkId::Port(port) => format!("link of port {port}"),
    }
}

fn wait_text(wait: WaitReason) -> &'static str {
    match wait {
        WaitReason::Nothing => "no wait",
        WaitReason::Turn => "its turn",
        WaitReason::Notification => "its notification under way",
        WaitReason::Grant | WaitReason::GrantTurn => "not yet granted, or the grant under way",
        WaitReason::Credit => "credits, its window of requests, or lines of others first",
        WaitReason::Window => "its congestion window full",
        WaitReason::Pacing => "its sending rate",
        WaitReason::Pause => "its link paused",
        WaitReason::Retransmission => "something to be sent again",
    }
}
