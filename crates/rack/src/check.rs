//! From a tree to the parts of a scenario, with everything that is wrong with it.

mod bounds;
mod cables;
mod faults;
mod host;
mod jobs;

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use unrack_units::Bytes;

use crate::decode::decode;
use crate::faults::Faults;
use crate::graph::Sides;
use crate::host::Host;
use crate::nearest::hint;
use crate::network::{Headers, Link, Network, Switch, Topology};
use crate::problem::Problem;
use crate::source::{Origin, Source};
use crate::tree::{Node, Value};
use crate::wiring::Wiring;
use crate::workload::{Blades, FileRef, Size, Trace, Workload};
use crate::{Protocol, fabric};

pub(crate) struct Checker<'a> {
    root: &'a Node,
    sources: &'a [Source],
    pub problems: Vec<Problem>,
}

/// What a scenario consists of.
pub(crate) struct Parts {
    pub seed: u64,
    pub network: Network,
    pub protocol: Protocol,
    pub workload: Workload,
    pub faults: Faults,
    pub host: Option<Host>,
}

/// The words that a key may hold: those of this version, and those of later ones.
struct Choice {
    known: &'static [&'static str],
    later: &'static [&'static str],
}

const TOPOLOGY: Choice = Choice { known: Topology::KINDS, later: &[] };
const PROTOCOL: Choice = Choice { known: Protocol::NAMES, later: fabric::LATER };
const WORKLOAD: Choice = Choice { known: Workload::KINDS, later: &[] };

const SECTIONS: &[&str] =
    &["seed", "network", "fabric", "host", "workload", "failures", "bit_errors", "extends"];

/// Of a scenario that names none.
const DEFAULT_SEED: u64 = 1;

/// The table `network` but for its topology.
#[derive(Deserialize)]
#[serde(default)]
struct Common {
    link: Link,
    /// Default: as `link`.
    core_link: Option<Link>,
    /// Default: [`Link::CXL`].
    cxl_link: Option<Link>,
    switch: Switch,
    /// Default 1500 B, as Ethernet's.
    mtu: Bytes,
    headers: Headers,
}

impl Default for Common {
    fn default() -> Common {
        let (link, switch, headers) = (Link::default(), Switch::default(), Headers::default());
        Common { link, core_link: None, cxl_link: None, switch, mtu: Bytes::new(1500), headers }
    }
}

#[derive(Deserialize)]
struct StarSize {
    nodes: u32,
}

#[derive(Deserialize)]
struct LeafSpineSize {
    racks: u32,
    hosts_per_rack: u32,
    spines: u32,
}

#[derive(Deserialize)]
struct FatTreeSize {
    /// Of each switch: the k of a k-ary fat tree.
    ports: u32,
}

#[derive(Deserialize)]
struct DrackSize {
    racks: u32,
    hosts_per_rack: u32,
    /// Default: as many as leave nothing oversubscribed.
    #[serde(default)]
    cores: Option<u32>,
}

#[derive(Deserialize)]
struct TorackSize {
    racks: u32,
    hosts_per_rack: u32,
    /// Default: as many as hosts, so that nothing is oversubscribed.
    #[serde(default)]
    uplinks: Option<u32>,
}

#[derive(Deserialize)]
struct CubeSize {
    /// Nodes along each dimension.
    shape: Sides,
}

#[derive(Deserialize)]
struct CablesFile {
    /// One cable a line ([`crate::graph::list`]).
    file: FileRef,
}

impl<'a> Checker<'a> {
    pub fn new(root: &'a Node, sources: &'a [Source]) -> Checker<'a> {
        Checker { root, sources, problems: Vec::new() }
    }

    /// The parts, if nothing is wrong; otherwise there are problems.
    pub fn parts(&mut self) -> Option<Parts> {
        self.refuse_unknown_sections();
        let seed = match self.root.get("seed") {
            Some(seed) => self.decode(seed, "seed"),
            None => Some(DEFAULT_SEED),
        };
        let network = self.network();
        let protocol =
            self.chosen("fabric", "protocol", &PROTOCOL).and_then(|(name, _)| Protocol::from_name(name));
        let workload = self.workload(network.as_ref());
        let faults = self.faults(network.as_ref(), protocol);
        let host = self.host(network.as_ref(), protocol);
        if let (Some(network), Some(protocol)) = (&network, protocol) {
            self.check_sharing(network.switch.buffer, protocol);
        }
        let parts = Parts {
            seed: seed?,
            network: network?,
            protocol: protocol?,
            workload: workload?,
            faults: faults?,
            host: host?,
        };
        self.problems.is_empty().then_some(parts)
    }

    fn refuse_unknown_sections(&mut self) {
        for (key, entry) in self.root.table().into_iter().flatten() {
            if !SECTIONS.contains(&key.as_str()) {
                let message =
                    format!("the scenario has no key `{}`{}", key.escape_debug(), hint(key, SECTIONS));
                self.problems.push(Problem::at(entry.key, message));
            }
        }
    }

    fn network(&mut self) -> Option<Network> {
        let table = self.table("network")?;
        let topology = self.topology();
        let common = self.decode::<Common>(&table.without("topology"), "network");
        let (topology, Common { link, core_link, cxl_link, switch, mtu, headers }) = (topology?, common?);
        if cxl_link.is_some() && topology.wiring().is_none() && self.root.get("host").is_none() {
            let message = format!(
                "only hosts of a `drack` have such a link, not those of a `{}` without `[host]`",
                topology.kind()
            );
            self.complain("network.cxl_link", message);
        }
        let (core_link, cxl_link) = (core_link.unwrap_or(link), cxl_link.unwrap_or(Link::CXL));
        let network = Network { topology, link, core_link, cxl_link, switch, mtu, headers };
        self.check_network(&network);
        Some(network)
    }

    fn topology(&mut self) -> Option<Topology> {
        let path = "network.topology";
        let (kind, rest) = self.chosen(path, "kind", &TOPOLOGY)?;
        match kind {
            "star" => self.decode(&rest, path).map(|StarSize { nodes }| Topology::Star { nodes }),
            "leaf-spine" => {
                self.decode(&rest, path).map(|LeafSpineSize { racks, hosts_per_rack, spines }| {
                    Topology::LeafSpine { racks, hosts_per_rack, spines }
                })
            }
            "drack" => self.decode(&rest, path).map(|DrackSize { racks, hosts_per_rack, cores }| {
                let cores = cores.unwrap_or(Wiring::default_cores(racks, hosts_per_rack));
                Topology::Drack { racks, hosts_per_rack, cores }
            }),
            "torack" => self.decode(&rest, path).map(|TorackSize { racks, hosts_per_rack, uplinks }| {
                Topology::Torack { racks, hosts_per_rack, uplinks: uplinks.unwrap_or(hosts_per_rack) }
            }),
            "torus" => self.decode(&rest, path).map(|CubeSize { shape }| Topology::Torus { sides: shape }),
            "graph" => self.decode(&rest, path).and_then(|CablesFile { file }| self.cabling(file)),
            "mesh" => self.decode(&rest, path).map(|CubeSize { shape }| Topology::Mesh { sides: shape }),
            _ => self.decode(&rest, path).map(|FatTreeSize { ports }| Topology::FatTree { ports }),
        }
    }

    /// The workload; what it asks of the network is checked only if there is one.
    fn workload(&mut self, network: Option<&Network>) -> Option<Workload> {
        let (kind, rest) = self.chosen("workload", "kind", &WORKLOAD)?;
        let mut workload = match kind {
            "memory" => self.decode(&rest, "workload").map(Workload::Memory),
            "flows" => self.decode(&rest, "workload").map(Workload::Flows),
            "collective" => self.decode(&rest, "workload").map(Workload::Collective),
            "jobs" => self.decode(&rest, "workload").map(Workload::Jobs),
            _ => self.decode(&rest, "workload").map(Workload::Trace),
        }?;
        self.place_files(&mut workload);
        if let Some(network) = network {
            fill_blades(&mut workload, network.topology.nodes());
            self.check_workload(&workload, network);
        }
        Some(workload)
    }

    /// Files are relative to the file that names them.
    fn place_files(&self, workload: &mut Workload) {
        let size = |size: &mut Size, path| {
            if let Size::File { file, .. } = size {
                self.place_file(file, path);
            }
        };
        match workload {
            Workload::Trace(trace) => self.place_file(&mut trace.file, "workload.file"),
            Workload::Memory(memory) => {
                size(&mut memory.size, "workload.size.cdf_file");
                memory.disk.iter_mut().for_each(|disk| size(&mut disk.size, "workload.disk.size.cdf_file"));
            }
            Workload::Flows(flows) => size(&mut flows.size, "workload.size.cdf_file"),
            Workload::Collective(_) | Workload::Jobs(_) => {}
        }
    }

    fn place_file(&self, file: &mut FileRef, path: &str) {
        let folder = match &self.sources[self.root.nearest_place(path).source].origin {
            Origin::File { folder, .. } => folder.clone(),
            Origin::Override => PathBuf::new(),
        };
        file.path = folder.join(&file.written);
    }

    /// The word that says what the table at `path` is, and the rest of that table.
    fn chosen(&mut self, path: &str, tag: &str, choice: &Choice) -> Option<(&'static str, Node)> {
        let table = self.table(path)?;
        let Some(word) = table.get(tag) else {
            self.missing(path, table, tag);
            return None;
        };
        let tag_path = format!("{path}.{tag}");
        let Value::Text(text) = &word.value else {
            self.complain(
                &tag_path,
                format!("no such choice: {}{}", word.describe(), hint("", choice.known)),
            );
            return None;
        };
        match choice.known.iter().find(|known| *known == text) {
            Some(known) => Some((known, table.without(tag))),
            None if choice.later.contains(&text.as_str()) => {
                let known = hint("", choice.known);
                self.complain(&tag_path, format!("`{text}` is not available in this version{known}"));
                None
            }
            None => {
                let shown = word.describe();
                self.complain(&tag_path, format!("no such choice: {shown}{}", hint(text, choice.known)));
                None
            }
        }
    }

    /// The table at a dotted path, which must be there.
    fn table(&mut self, path: &str) -> Option<&'a Node> {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        let around = if parent.is_empty() { Some(self.root) } else { self.root.at(parent) }?;
        match around.get(key) {
            Some(node) if node.table().is_some() => return Some(node),
            Some(node) => self.complain(path, format!("expected a table, found {}", node.describe())),
            None => self.missing(parent, around, key),
        }
        None
    }

    fn missing(&mut self, path: &str, table: &Node, key: &str) {
        let path = if path.is_empty() { "the scenario" } else { path };
        self.problems.push(Problem::at(table.place, format!("{path} needs `{key}`")));
    }

    fn complain(&mut self, path: &str, message: impl std::fmt::Display) {
        let place = self.root.nearest_place(path);
        self.problems.push(Problem::at(place, format!("{path}: {message}")));
    }

    fn decode<T: DeserializeOwned>(&mut self, node: &Node, path: &str) -> Option<T> {
        decode(node, path, &mut self.problems)
    }
}

/// A captured program runs on half of the nodes, and the other half holds its memory.
fn fill_blades(workload: &mut Workload, nodes: u32) {
    if let Workload::Trace(Trace { blades: blades @ None, .. }) = workload {
        *blades = Some(Blades::half(nodes));
    }
}
