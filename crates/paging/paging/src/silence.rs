//! Detects a memory node that does not answer: warns every second, and finally ends the run. Reports nodes of a mirror that are lost.
//!
//! Pagers store in the control segment how long they have waited. This module reads only that number, so it cannot block on the program's
//! memory.

use crate::memory_nodes::{MemoryNodes, RemoteNodes};
use crate::{PagingError, proc, say};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unrack_pager::control::{ControlHead, FOR_GREETING, FOR_ROOM, ProcessSlot};
use unrack_record::Warning;

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Warnings about a memory node that does not answer.
pub(crate) struct SilenceWarnings<'a> {
    nodes: RemoteNodes<'a>,
    /// Time of the next warning; `None` while the node answers.
    next_line: Option<Instant>,
    /// Description of the node that does not answer.
    silent: String,
}

impl SilenceWarnings<'_> {
    /// Makes the check for the memory nodes of a run.
    pub(crate) fn new(nodes: RemoteNodes) -> SilenceWarnings {
        SilenceWarnings { nodes, next_line: None, silent: String::new() }
    }

    /// Checks whether processes wait for a memory node, and prints a warning if one is due.
    ///
    /// # Errors
    /// If a process has waited for longer than [`RemoteNodes::patience`].
    pub(crate) fn look(&mut self, control: &ControlHead) -> Result<(), PagingError> {
        if let Some(line) = self.heed(control, Instant::now())? {
            say(&line);
        }
        Ok(())
    }

    /// Returns the message that is due at `now`, if any.
    fn heed(&mut self, control: &ControlHead, now: Instant) -> Result<Option<String>, PagingError> {
        let longest = control.live_slots().max_by_key(|slot| slot.waited_ns.load(Relaxed));
        let Some((slot, waited)) = longest
            .map(|slot| (slot, Duration::from_nanos(slot.waited_ns.load(Relaxed))))
            .filter(|(_, waited)| *waited >= self.nodes.page_timeout)
        else {
            return Ok(self.next_line.take().map(|_| format!("{} answers again", self.silent)));
        };
        let (what, node) = (describe(slot, waited), self.nodes.at.describe(slot.waits_on.load(Relaxed)));
        if waited >= self.nodes.patience() {
            return Err(PagingError::Failed(format!(
                "{what}, and {node} has not answered, so the program was ended: check the node \
                 and the network, or give a longer --page-timeout"
            )));
        }
        if self.next_line.is_some_and(|due| now < due) {
            return Ok(None);
        }
        self.next_line = Some(self.next_line.unwrap_or(now) + LINE_EVERY);
        let last = self.nodes.patience().as_secs();
        let line = format!("{what}: {node} does not answer; the program is ended after {last} s");
        self.silent = node;
        Ok(Some(line))
    }
}

/// Warnings about memory nodes of a mirror that processes of the run have lost.
pub(crate) struct LossWarnings<'a> {
    nodes: &'a MemoryNodes,
    /// Text of the warning about each lost node, by the node's index.
    told: BTreeMap<usize, String>,
}

impl<'a> LossWarnings<'a> {
    pub(crate) fn new(nodes: &'a MemoryNodes) -> LossWarnings<'a> {
        LossWarnings { nodes, told: BTreeMap::new() }
    }

    /// Prints a warning about each node that was lost since the last call.
    pub(crate) fn look(&mut self, control: &ControlHead) {
        for (node, text) in self.nodes.lost(control) {
            self.told.entry(node).or_insert_with(|| {
                say(&format!("WARNING: {text}"));
                text
            });
        }
    }

    /// Returns the warnings about all nodes that were lost.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Warning> {
        self.told.values().map(|text| Warning::new("node-lost", text.as_str()))
    }
}

/// Describes which process waits, what it waits for, and how long it has waited.
fn describe(slot: &ProcessSlot, waited: Duration) -> String {
    let pid = slot.pid.load(Relaxed);
    let name = proc::name(pid).unwrap_or_else(|| "a process".into());
    let what = match slot.waits_for.load(Relaxed) {
        FOR_ROOM => "room for its pages",
        FOR_GREETING => "the node's greeting",
        _ => "a page",
    };
    format!("{name} (process {pid}) has waited {} s for {what}", waited.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_file::ControlFile;
    use crate::folder::ScratchFolder;
    use unrack_pager::control::FOR_PAGES;

    #[test]
    fn silence_is_told_each_second_and_ends_the_run_at_last() {
        let folder = ScratchFolder::fast().unwrap();
        let control = ControlFile::create(&folder.path("control"), &[]).unwrap();
        let nodes = MemoryNodes::new(vec!["10.0.0.2:7000".parse().unwrap()], false).unwrap();
        let mut silence =
            SilenceWarnings::new(RemoteNodes { at: &nodes, page_timeout: Duration::from_secs(2) });
        let begin = Instant::now();
        let mut after = |ms: u64, waited_ms: u64| {
            let slot = &control.slots[control.take_slot(std::process::id()).unwrap()];
            slot.waits_for.store(FOR_PAGES, Relaxed);
            slot.waited_ns.store(waited_ms * 1_000_000, Relaxed);
            silence.heed(&control, begin + Duration::from_millis(ms))
        };
        assert_eq!(after(0, 1999), Ok(None));
        let line = after(1, 2000).unwrap().unwrap();
        let said = ["has waited 2 s for a page", "10.0.0.2:7000", "ended after 12 s"];
        said.iter().for_each(|part| assert!(line.contains(part), "{line}"));
        assert_eq!(after(900, 2900), Ok(None), "one line a second");
        assert!(after(1100, 3100).unwrap().unwrap().contains("3 s"));
        assert_eq!(after(1200, 0), Ok(Some("the memory node at 10.0.0.2:7000 answers again".into())));
        assert_eq!(after(1300, 0), Ok(None));
        assert!(after(1400, 11_999).unwrap().is_some(), "and silent again");
        let why = after(1500, 12_000).unwrap_err().to_string();
        assert!(why.contains("has waited 12 s") && why.contains("--page-timeout"), "{why}");
    }
}
