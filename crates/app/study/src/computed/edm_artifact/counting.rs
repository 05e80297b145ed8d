//! Which messages an average counts, and over which ideal.

use super::model::{CHUNK, Flow, FlowKind, LINK, ModelRun, Rules, alone};
use std::collections::BTreeMap;

/// Ways to count. The plain ones are those of this project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counting {
    /// Slowdowns are over the authors' ideal, which is roomier than the time of the message alone for short messages and for answers.
    pub(super) roomy_ideal: bool,
    /// Slowdowns below 1 count as 1.
    pub(super) floor: bool,
    /// Only what finished before all flows had started counts.
    pub(super) stops: bool,
    /// A read counts twice: as a request, from its submission until it reaches the memory node, and as an answer, from then on.
    pub(super) halves: bool,
}

impl Counting {
    pub(super) const PLAIN: Counting =
        Counting { roomy_ideal: false, floor: false, stops: false, halves: false };
    pub(super) const AUTHORS: Counting =
        Counting { roomy_ideal: true, floor: true, stops: true, halves: true };

    /// Returns the mean slowdown of a run; `None` if nothing counts.
    pub(super) fn mean(&self, ran: &ModelRun, rules: Rules) -> Option<f64> {
        let mut alone = BTreeMap::new();
        let slowdowns: Vec<f64> =
            ran.flows.iter().filter_map(|flow| self.slowdown(ran, flow, rules, &mut alone)).collect();
        (!slowdowns.is_empty()).then(|| slowdowns.iter().sum::<f64>() / slowdowns.len() as f64)
    }

    fn slowdown(
        &self,
        ran: &ModelRun,
        flow: &Flow,
        rules: Rules,
        alone: &mut BTreeMap<(bool, u32), [u64; 2]>,
    ) -> Option<f64> {
        let finished = flow.finished.filter(|finished| !self.stops || *finished <= ran.all_started)?;
        let request = flow.request.map(|request| &ran.flows[request]);
        let (start, ideal) = match (self.halves, flow.kind, request) {
            (false, FlowKind::Request, _) => return None,
            (false, FlowKind::Answer, Some(request)) => {
                (request.start, authors_ideal(flow) + authors_ideal(request))
            }
            _ => (flow.start, authors_ideal(flow)),
        };
        let ideal = match self.roomy_ideal {
            true => ideal,
            false => self.alone(flow, rules, alone),
        };
        let slowdown = (finished - start) as f64 / ideal as f64;
        Some(if self.floor { slowdown.max(1.0) } else { slowdown })
    }

    /// Returns the slots that a flow takes without other traffic.
    fn alone(&self, flow: &Flow, rules: Rules, known: &mut BTreeMap<(bool, u32), [u64; 2]>) -> u64 {
        let is_read = flow.kind != FlowKind::Write;
        let bytes = flow.message_bytes;
        let [request, rest] = *known.entry((is_read, bytes)).or_insert_with(|| alone(is_read, bytes, rules));
        match (flow.kind, self.halves) {
            (FlowKind::Request, _) => request,
            (FlowKind::Answer, false) => request + rest,
            (FlowKind::Answer, true) | (FlowKind::Write, _) => rest,
        }
    }
}

/// Returns the slots that the authors expect a flow to take (`initialize_flow`, and where answers are created).
fn authors_ideal(flow: &Flow) -> u64 {
    let bytes = u64::from(flow.message_bytes);
    let is_long = bytes > CHUNK;
    let request = 2 + 4 * LINK + if is_long { bytes / 8 + 4 * LINK } else { 0 };
    match flow.kind {
        FlowKind::Request => request,
        FlowKind::Write => {
            bytes / 8 + 4 * LINK + bytes.min(4 * CHUNK) / 8 + if is_long { 4 * LINK } else { 0 }
        }
        FlowKind::Answer => {
            let chunks = (bytes / CHUNK + 1) * CHUNK / 8;
            bytes / 8 + 2 * LINK + if is_long { chunks + request - bytes / 8 } else { 0 }
        }
    }
}
