//! The file that lists the cables of a `graph`.

use super::Checker;
use crate::graph::list::Listed;
use crate::network::{Cabling, Topology};
use crate::workload::FileRef;
use std::fs::File;
use std::io::Read;

/// As many cables as fit, and some comments.
const MOST_BYTES: u64 = 64 << 20;

impl Checker<'_> {
    pub(super) fn cabling(&mut self, mut file: FileRef) -> Option<Topology> {
        let path = "network.topology.file";
        self.place_file(&mut file, path);
        match read(&file).and_then(|text| listed(&text)) {
            Ok(Listed { graph, cables }) => {
                Some(Topology::Graph(Cabling { file, graph: graph.into(), cables: cables.into() }))
            }
            Err(why) => {
                self.complain(path, format!("`{}`: {why}", file.written.escape_debug()));
                None
            }
        }
    }
}

fn read(file: &FileRef) -> Result<String, String> {
    let mut text = String::new();
    let opened = File::open(&file.path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    match opened {
        Err(why) => Err(format!("cannot be read: {why}")),
        Ok(_) if text.len() as u64 > MOST_BYTES => Err("is longer than 64 MiB".into()),
        Ok(_) => Ok(text),
    }
}

fn listed(text: &str) -> Result<Listed, String> {
    Listed::read(text).map_err(|why| why.to_string())
}
