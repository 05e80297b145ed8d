//! Reads the file that lists the cables of a `graph`.

use super::Checker;
use crate::graph::list::ListedGraph;
use crate::topology::{Cabling, TopologySpec};
use crate::workload::FileRef;
use unrack_input::read_text;

/// Largest file: room for the maximum number of cables, and for some comments.
const MOST_BYTES: u64 = 64 << 20;

impl Checker<'_> {
    pub(crate) fn cabling(&mut self, mut file: FileRef) -> Option<TopologySpec> {
        let path = "network.topology.file";
        self.place_file(&mut file, path);
        match read(&file).and_then(|text| listed(&text)) {
            Ok(ListedGraph { graph, cables }) => {
                Some(TopologySpec::Graph(Cabling { file, graph: graph.into(), cables: cables.into() }))
            }
            Err(why) => {
                self.complain(path, format!("`{}`: {why}", file.written.escape_debug()));
                None
            }
        }
    }
}

fn read(file: &FileRef) -> Result<String, String> {
    read_text(&file.path, MOST_BYTES).map_err(|why| why.reason.to_string())
}

fn listed(text: &str) -> Result<ListedGraph, String> {
    ListedGraph::read(text).map_err(|why| why.to_string())
}
