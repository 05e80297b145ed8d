//! Memory nodes from which a run fetches its remote pages, and what it got from each of them.

use crate::PagingError;
use crate::memory_node::{MemoryNode, nanoseconds};
use serde::Serialize;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use unrack_basis::PAGE;
use unrack_keys::EncryptionPolicy;
use unrack_pager::control::{ControlHead, MOST_NODES, PagerSettings};

/// Memory nodes of a run: either each page is stored at one of them (striped), or at all of them (mirrored).
#[derive(Debug, Clone)]
pub struct MemoryNodes {
    nodes: Vec<MemoryNode>,
    is_mirrored: bool,
}

impl MemoryNodes {
    /// Makes the memory nodes of a run.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if there is no node, if there are too many, if one is given twice, or if a mirror has only one node.
    pub fn new(nodes: Vec<MemoryNode>, is_mirrored: bool) -> Result<MemoryNodes, PagingError> {
        let usage = |text: String| Err(PagingError::Usage(text));
        for (at, node) in nodes.iter().enumerate() {
            if let Some(other) = nodes[..at].iter().find(|other| other.is_same(node)) {
                return usage(match node.to_string() == other.to_string() {
                    true => format!("the memory node {node} is given twice: name each node once"),
                    false => format!(
                        "{other} and {node} are the same socket of a memory node: name each node once"
                    ),
                });
            }
        }
        match nodes.len() {
            0 => usage("no memory node is given".into()),
            1 if is_mirrored => {
                usage("a mirror needs at least two memory nodes: give more, such as --remote 10.0.0.2:7000,10.0.0.3:7000".into())
            }
            1..=MOST_NODES => Ok(MemoryNodes { nodes, is_mirrored }),
            many => usage(format!("{many} memory nodes are given, and a run can use at most {MOST_NODES}")),
        }
    }

    /// Makes connections to the nodes encrypted, where the policy requires it.
    ///
    /// # Errors
    /// If keys are needed but do not exist.
    pub fn protect(&mut self, policy: &EncryptionPolicy) -> Result<(), PagingError> {
        self.nodes.iter_mut().try_for_each(|node| node.protect(policy))
    }

    /// Asks each memory node whether it would serve this client, before a program depends on the nodes.
    ///
    /// # Errors
    /// If a node does not exist, does not answer in time, or refuses; the error names the node and the case. Also if two addresses lead to
    /// the same node, because then a mirror would have one copy, and the capacities would not add up.
    pub fn greet(&self, timeout: Duration) -> Result<(), PagingError> {
        let mut known: Vec<(u64, &MemoryNode)> = Vec::new();
        for node in &self.nodes {
            let identity = node.greet(timeout)?.identity;
            if let Some((_, other)) = known.iter().find(|(other, _)| *other == identity && identity != 0) {
                return Err(PagingError::Usage(format!(
                    "{other} and {node} are two addresses of one memory node: name each node once"
                )));
            }
            known.push((identity, node));
        }
        Ok(())
    }

    /// Returns the error of the encrypted connection that failed last, of the first node that has one.
    pub(crate) fn failure(&self) -> Option<String> {
        self.nodes.iter().find_map(MemoryNode::failure)
    }

    /// Stores the nodes' addresses in the settings that pagers read.
    pub fn tell(&self, settings: &PagerSettings) {
        self.nodes.iter().zip(&settings.nodes).for_each(|(node, place)| node.tell(place));
        settings.is_mirrored.store(u32::from(self.is_mirrored), Relaxed);
    }

    /// Returns the text for the node that has this number, as [`unrack_pager::control::ProcessSlot::waits_on`] has it.
    pub(crate) fn describe(&self, number: u32) -> String {
        match (self.nodes.len(), self.nodes.get((number as usize).wrapping_sub(1))) {
            (1, _) => format!("the memory node at {self}"),
            (_, Some(node)) => format!("the memory node at {node}"),
            (_, None) => format!("one of the memory nodes at {self}"),
        }
    }

    /// Returns, for each node that a process of the run has lost, its index and the warning about it.
    pub(crate) fn lost(&self, control: &ControlHead) -> impl Iterator<Item = (usize, String)> {
        let counts = self.nodes.iter().zip(&control.node_counts).enumerate();
        counts.filter_map(|(at, (node, counts))| {
            let reason = counts.lost()?;
            let cause = node.failure().map(|cause| format!(" ({cause})")).unwrap_or_default();
            Some((at, format!("{reason}{cause}: the run goes on with the copies at the other memory nodes")))
        })
    }

    /// Returns what the run got from each node in `wall_s` seconds.
    pub(crate) fn traffic(&self, control: &ControlHead, wall_s: f64) -> Vec<NodeTraffic> {
        let counts = self.nodes.iter().zip(&control.node_counts);
        let bytes = |pages: u64| pages.saturating_mul(PAGE as u64);
        let traffic = counts.map(|(node, counts)| {
            let (loaded, stored) = (bytes(counts.loaded.load(Relaxed)), bytes(counts.stored.load(Relaxed)));
            let busy_s = counts.busy_ns.load(Relaxed) as f64 / 1e9;
            let rate = |bytes: u64, s: f64| (s > 0.0).then(|| bytes as f64 / s);
            NodeTraffic {
                node: node.to_string(),
                loaded_bytes: loaded,
                stored_bytes: stored,
                loaded_bytes_per_s: rate(loaded, wall_s),
                stored_bytes_per_s: rate(stored, wall_s),
                busy_s,
                busy_bytes_per_s: rate(loaded, busy_s),
                lost: counts.is_lost(),
            }
        });
        traffic.collect()
    }
}

impl fmt::Display for MemoryNodes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (at, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// What a run got from one memory node, summed over the processes of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeTraffic {
    /// Address of the node.
    pub node: String,
    pub loaded_bytes: u64,
    pub stored_bytes: u64,
    /// Bytes per second of the whole run; `None` if the run took no time.
    pub loaded_bytes_per_s: Option<f64>,
    pub stored_bytes_per_s: Option<f64>,
    /// Time in seconds during which the node owed pages, summed over the processes. In shared memory a node owes none, because processes
    /// copy the pages themselves.
    pub busy_s: f64,
    /// Loaded bytes per second of `busy_s`: the rate at which pages came while they were waited for.
    pub busy_bytes_per_s: Option<f64>,
    /// True if a process of the run lost the node and went on with another one.
    pub lost: bool,
}

/// Memory nodes of a run, and the longest silence of a node that is tolerated.
#[derive(Debug, Clone, Copy)]
pub struct RemoteNodes<'a> {
    pub at: &'a MemoryNodes,
    /// Time after which a page for which a thread waits is reported on standard error.
    pub page_timeout: Duration,
}

impl RemoteNodes<'_> {
    /// Number of page timeouts after which the run is ended. With the usual timeout of 5 s this makes 30 s. TCP retransmits at doubling
    /// intervals, so a link that recovers is noticed after at most twice the time for which it was down. Therefore outages of 15 s are
    /// survived, for example a link renegotiation, a rapid spanning tree convergence, or a node that is paused for migration.
    const PATIENCE: u32 = 6;
    /// A node of a mirror is given up after the page timeout divided by this number, if another node answers. The program then goes on
    /// before the wait would be reported.
    const SPARE_PATIENCE: u32 = 2;

    /// Returns the longest time that a thread waits for a page before the run is ended.
    pub fn patience(&self) -> Duration {
        self.page_timeout.saturating_mul(RemoteNodes::PATIENCE)
    }

    pub(crate) fn tell(&self, settings: &PagerSettings) {
        let spare_patience = self.page_timeout / RemoteNodes::SPARE_PATIENCE;
        settings.patience_ns.store(nanoseconds(self.patience()), Relaxed);
        settings.spare_patience_ns.store(nanoseconds(spare_patience), Relaxed);
        self.at.tell(settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_file::ControlFile;
    use crate::folder::ScratchFolder;

    fn nodes(text: &str, is_mirrored: bool) -> Result<MemoryNodes, PagingError> {
        MemoryNodes::new(text.split(',').map(|node| node.parse().unwrap()).collect(), is_mirrored)
    }

    fn refused(text: &str, is_mirrored: bool) -> String {
        match nodes(text, is_mirrored).unwrap_err() {
            PagingError::Usage(text) => text,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn one_node_under_two_names_is_refused() {
        assert!(
            refused("10.0.0.2:7000,10.0.0.3:7000,10.0.0.2:7000", false)
                .contains("10.0.0.2:7000 is given twice")
        );
        let folder = ScratchFolder::fast().unwrap();
        let (socket, link) = (folder.path("socket"), folder.path("link"));
        std::fs::write(&socket, "").unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        let said = refused(&format!("{},{}", socket.display(), link.display()), true);
        assert!(said.contains("the same socket"), "{said}");
        let two = format!("10.0.0.2:7000,{}", socket.display());
        assert_eq!(nodes(&two, true).unwrap().to_string(), two, "mixed addresses are fine");
    }

    #[test]
    fn a_mirror_of_one_node_and_nine_nodes_are_refused() {
        assert!(refused("10.0.0.2:7000", true).contains("at least two"));
        let many: Vec<String> = (0..9).map(|port| format!("10.0.0.2:{}", 7000 + port)).collect();
        assert!(refused(&many.join(","), false).contains("at most 8"));
        assert_eq!(nodes(&many[..8].join(","), false).unwrap().to_string(), many[..8].join(","));
    }

    #[test]
    fn what_was_counted_is_reported_for_each_node() {
        let folder = ScratchFolder::fast().unwrap();
        let control = ControlFile::create(&folder.path("control"), &[]).unwrap();
        let nodes = nodes("10.0.0.2:7000,10.0.0.3:7000", true).unwrap();
        nodes.tell(&control.settings);
        assert_eq!((control.settings.addresses().len(), nodes.lost(&control).count()), (2, 0));
        control.node_counts[1].loaded.store(1000, Relaxed);
        control.node_counts[1].stored.store(10, Relaxed);
        control.node_counts[1].busy_ns.store(500_000_000, Relaxed);
        control.node_counts[1].lose("the memory node at 10.0.0.3:7000 closed the connection");
        let [one, two] = &nodes.traffic(&control, 2.0)[..] else { panic!() };
        assert_eq!((one.loaded_bytes, one.busy_bytes_per_s, one.lost), (0, None, false));
        assert_eq!((two.loaded_bytes, two.stored_bytes, two.lost), (4_096_000, 40_960, true));
        assert_eq!((two.loaded_bytes_per_s, two.busy_bytes_per_s), (Some(2_048_000.0), Some(8_192_000.0)));
        let (at, said) = nodes.lost(&control).next().unwrap();
        assert!(at == 1 && said.contains("10.0.0.3:7000 closed the connection: the run goes on"), "{said}");
        assert_eq!(nodes.describe(2), "the memory node at 10.0.0.3:7000");
        assert_eq!(nodes.describe(0), "one of the memory nodes at 10.0.0.2:7000,10.0.0.3:7000");
    }
}
