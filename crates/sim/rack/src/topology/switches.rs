//! Switches and the cables between them, as data. A topology that another crate adds returns them.

use std::collections::VecDeque;

/// Largest number of nodes, so that per-node tables fit in memory.
pub(crate) const MOST_NODES: u32 = 1 << 16;
/// Largest number of switch ports. Ports are numbered in 32 bits, and each takes some hundred bytes.
pub(crate) const MOST_PORTS: u64 = 1 << 24;

/// Hosts around switches, and the cables between the switches.
///
/// Switches are numbered from 0. The first `racks` of them have hosts, and each of these has `hosts_per_rack` hosts:
/// host `n` is at switch `n / hosts_per_rack`. A packet takes a shortest path. If several are equally short, the hash
/// of its flow selects one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switches {
    pub racks: u32,
    pub hosts_per_rack: u32,
    /// Number of all switches.
    pub switches: u32,
    /// Cables, each between two switches. Several cables may connect the same two switches. The ports of a switch are
    /// those to its hosts, followed by its cables in this order.
    pub cables: Vec<(u32, u32)>,
}

/// Rejection of a topology: the invalid key, or an empty key for the topology as a whole, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedTopology {
    pub key: &'static str,
    pub why: String,
}

impl RefusedTopology {
    /// Creates the rejection of a key.
    pub fn new(key: &'static str, why: impl Into<String>) -> RefusedTopology {
        RefusedTopology { key, why: why.into() }
    }
}

/// Largest number of pairs of a switch and a rack, because the paths of each pair are kept in memory.
const MOST_PAIRS: u64 = 1 << 24;
/// Largest number of pairs of a port and a rack. The search for paths visits each pair, which takes some seconds at
/// this limit.
const MOST_CHOICES: u64 = 1 << 31;

impl Switches {
    /// Returns the number of hosts; it saturates at `u32::MAX`.
    pub fn nodes(&self) -> u32 {
        self.racks.saturating_mul(self.hosts_per_rack)
    }

    /// Returns the number of ports of all switches.
    pub fn ports(&self) -> u64 {
        u64::from(self.nodes()) + 2 * self.cables.len() as u64
    }

    /// Returns the switches if they form a valid network; otherwise the reason why they do not.
    pub(crate) fn checked(self) -> Result<Switches, RefusedTopology> {
        let refuse = |why: String| Err(RefusedTopology::new("", why));
        let Switches { racks, switches, ref cables, .. } = self;
        if !(2..=MOST_NODES).contains(&self.nodes()) {
            return refuse(format!("{} nodes is outside 2 to {MOST_NODES}", self.nodes()));
        }
        if racks > switches {
            return refuse(format!("{racks} switches have hosts, but there are {switches}"));
        }
        let pairs = u64::from(switches) * u64::from(racks);
        let choices = self.ports().saturating_mul(u64::from(racks));
        if self.ports() > MOST_PORTS || pairs > MOST_PAIRS || choices > MOST_CHOICES {
            return refuse(format!(
                "{} switch ports, or {switches} switches to {racks} racks, are more than fit",
                self.ports()
            ));
        }
        if let Some((a, b)) = cables.iter().find(|(a, b)| a == b || *a.max(b) >= switches) {
            return refuse(format!("no cable connects switches {a} and {b}: there are {switches}"));
        }
        match self.unreached() {
            Some(switch) => refuse(format!("no path leads from switch 0 to switch {switch}")),
            None => Ok(self),
        }
    }

    /// Returns a switch with hosts that has no path to switch 0; `None` if all of them have one.
    fn unreached(&self) -> Option<u32> {
        let mut next = vec![Vec::new(); self.switches as usize];
        for (a, b) in &self.cables {
            next[*a as usize].push(*b);
            next[*b as usize].push(*a);
        }
        let mut seen = vec![false; self.switches as usize];
        let mut queue = VecDeque::from([0]);
        while let Some(switch) = queue.pop_front() {
            if !std::mem::replace(&mut seen[switch as usize], true) {
                queue.extend(&next[switch as usize]);
            }
        }
        (0..self.racks).find(|switch| !seen[*switch as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(racks: u32, hosts_per_rack: u32, switches: u32, cables: &[(u32, u32)]) -> Option<String> {
        let switches = Switches { racks, hosts_per_rack, switches, cables: cables.to_vec() };
        switches.checked().err().map(|refused| refused.why)
    }

    #[test]
    fn switches_that_make_no_network_are_refused() {
        assert_eq!(why(2, 1, 3, &[(0, 2), (1, 2)]), None);
        let refused = |found: Option<String>, words: &str| {
            let found = found.expect("a refusal");
            assert!(found.contains(words), "{found}");
        };
        refused(why(0, 0, 1, &[]), "0 nodes");
        refused(why(u32::MAX, u32::MAX, 1, &[]), "nodes is outside");
        refused(why(3, 1, 2, &[(0, 1)]), "3 switches have hosts");
        refused(why(2, 1, 2, &[(1, 1)]), "no cable connects");
        refused(why(2, 1, 2, &[(0, 7)]), "no cable connects");
        refused(why(3, 1, 4, &[(0, 3), (1, 3)]), "to switch 2");
        refused(why(2, 1, u32::MAX, &[]), "more than fit");
        refused(why(1 << 11, 1, 1 << 12, &vec![(0, 1); 1 << 20]), "more than fit");
    }
}
