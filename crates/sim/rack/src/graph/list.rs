//! Graphs as text. Each line is one cable: its two ends and, if they differ from the network's, its rate and
//! propagation.
//!
//! ```text
//! # Nodes are numbered from 0, and all linked.
//! 0 1
//! 1 2 40Gbps
//! 2 0 10Gbps 300ns
//! ```

use super::{Graph, GraphError, MOST_NODES};
use crate::link::LinkSpec;
use unrack_units::{Rate, Time};

/// A graph and the properties of its cables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGraph {
    pub graph: Graph,
    pub cables: Vec<Cable>,
}

/// Properties of a cable that its line sets in addition to its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cable {
    /// Rate in each direction. `None`: as `network.link`.
    pub rate: Option<Rate>,
    /// Propagation in each direction. `None`: as `network.link`.
    pub propagation: Option<Time>,
}

/// Error in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListError {
    /// Line of the error, counted from 1. `None` if the error concerns the whole list.
    pub line: Option<usize>,
    pub message: String,
}

impl std::error::Error for ListError {}

impl std::fmt::Display for ListError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl ListedGraph {
    /// Reads a list. The number of nodes is one more than the highest node number in the list.
    ///
    /// # Errors
    /// Returns the first line that is not a cable, or the reason why the cables do not form a [`Graph`].
    pub fn read(text: &str) -> Result<ListedGraph, ListError> {
        let (mut lines, mut ends, mut cables) = (Vec::new(), Vec::new(), Vec::new());
        for (n, line) in text.lines().enumerate() {
            let words = line.split_once('#').map_or(line, |(before, _)| before).split_whitespace();
            let words: Vec<&str> = words.collect();
            if words.is_empty() {
                continue;
            }
            let at = |message| ListError { line: Some(n + 1), message };
            let (pair, cable) = cable(&words).map_err(at)?;
            lines.push(n + 1);
            ends.push(pair);
            cables.push(cable);
        }
        let nodes = ends.iter().map(|(a, b)| a.max(b) + 1).max().unwrap_or(0);
        let graph = Graph::of_cables(nodes, &ends).map_err(|why| ListError {
            line: why.cable().map(|cable| lines[cable]),
            message: match why {
                GraphError::Nodes(0) => "it has no cables".into(),
                why => why.to_string(),
            },
        })?;
        Ok(ListedGraph { graph, cables })
    }
}

fn cable(words: &[&str]) -> Result<((u32, u32), Cable), String> {
    let (a, b, rest) = match words {
        [a, b, rest @ ..] if rest.len() <= 2 => (a, b, rest),
        _ => {
            return Err(format!("expected two nodes, a rate and a propagation, found {} words", words.len()));
        }
    };
    let node = |word: &str| match word.parse() {
        Ok(node) if node < MOST_NODES => Ok(node),
        _ => Err(format!("`{}` is no node: they are 0 to {}", word.escape_debug(), MOST_NODES - 1)),
    };
    let ends = (node(a)?, node(b)?);
    let rate = rest.first().map(|word| word.parse()).transpose().map_err(|why| format!("{why}"))?;
    let propagation = rest.get(1).map(|word| word.parse()).transpose().map_err(|why| format!("{why}"))?;
    if let Some(rate) = rate.filter(|rate| !(LinkSpec::SLOWEST..=LinkSpec::FASTEST).contains(rate)) {
        return Err(format!("{rate} is outside {} to {}", LinkSpec::SLOWEST, LinkSpec::FASTEST));
    }
    if let Some(propagation) = propagation.filter(|propagation| *propagation > LinkSpec::LONGEST) {
        return Err(format!("{propagation} is longer than {}", LinkSpec::LONGEST));
    }
    Ok((ends, Cable { rate, propagation }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cables_are_read() {
        let text = "# a triangle\n0 1\n\n 1\t2 40Gbps # faster\r\n2 0 10Gbps 300ns";
        let ListedGraph { graph, cables } = ListedGraph::read(text).unwrap();
        assert_eq!(graph, Graph::of_cables(3, &[(0, 1), (1, 2), (2, 0)]).unwrap());
        let (rate, propagation) = (Some(Rate::from_gbps(40)), Some(Time::from_ns(300)));
        let last = Cable { rate: Some(Rate::from_gbps(10)), propagation };
        assert_eq!(cables, [Cable::default(), Cable { rate, propagation: None }, last]);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        let star: String = (1..10).map(|node| format!("0 {node}\n")).collect();
        for (text, why) in [
            ("", "it has no cables"),
            ("# nothing\n", "it has no cables"),
            ("0 1\n2", "line 2: expected two nodes"),
            ("0 1 1Gbps 1ns 1\n", "line 1: expected two nodes, a rate and a propagation, found 5 words"),
            ("0 65536", "line 1: `65536` is no node: they are 0 to 65535"),
            ("-1 0", "line 1: `-1` is no node"),
            ("0 1 fast", "line 1: "),
            ("0 1 1Gbps 3", "line 1: "),
            ("0 1 1bps", "line 1: 1bps is outside 1Mbps to 100Tbps"),
            ("0 1 1Gbps 2s", "line 1: 2s is longer than 1s"),
            ("0 1\n\n1 1", "line 3: node 1 is linked to itself"),
            ("0 1\n#\n1 0", "line 3: these nodes are linked already"),
            (&star, "line 9: node 0 has more than 8 links"),
            ("0 1\n2 3", "no path leads from node 0 to node 2"),
            ("0 2", "no path leads from node 0 to node 1"),
        ] {
            let said = ListedGraph::read(text).unwrap_err().to_string();
            assert!(said.starts_with(why), "{text:?}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "([0-9]{1,6}|[ \n\t#]|Gbps|ns|µ|\\PC){0,60}") {
            let _ = ListedGraph::read(&text);
        }

        /// A written list reads back.
        #[test]
        fn lists_read_back(words in prop::collection::vec((0..3u8, 1..400u64, 0..9_000u64), 1..40)) {
            let line = |(n, (kind, gbps, ns)): (usize, &(u8, u64, u64))| match kind {
                0 => format!("{n} {}\n", n + 1),
                1 => format!("{n} {} {gbps}Gbps\n", n + 1),
                _ => format!("{n} {} {gbps}Gbps {ns}ns # and more\n", n + 1),
            };
            let text: String = words.iter().enumerate().map(line).collect();
            let ListedGraph { graph, cables } = ListedGraph::read(&text).unwrap();
            prop_assert_eq!(graph.nodes() as usize, words.len() + 1);
            for (cable, (kind, gbps, ns)) in cables.iter().zip(words) {
                prop_assert_eq!(cable.rate, (kind > 0).then_some(Rate::from_gbps(gbps)));
                prop_assert_eq!(cable.propagation, (kind > 1).then_some(Time::from_ns(ns)));
            }
        }
    }
}
