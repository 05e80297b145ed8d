//! Checks a scenario: converts its tree to the parts of the scenario, or to a list of all problems.

pub(crate) mod bounds;
mod cables;
mod faults;
mod host;
mod jobs;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Schema, json};
use unrack_units::Bytes;
use unrack_units::nearest::{hint, nearest};

use crate::decode::{decode, decode_beside};
use crate::faults::Faults;
use crate::host::HostSpec;

use crate::link::LinkSpec;
use crate::network::{Headers, NetworkSpec, SwitchSpec};
use crate::problem::ScenarioProblem;
use crate::schema;
use crate::source::{Origin, Source};
use crate::topology::TopologySpec;
use crate::tree::{Node, Value};
use crate::workload::{Blades, FileRef, Size, Trace, Workload};
use crate::{KnownNames, Protocol, kinds};

pub(crate) struct Checker<'a> {
    root: &'a Node,
    sources: &'a [Source],
    known: &'a KnownNames,
    pub problems: Vec<ScenarioProblem>,
}

/// Parts of a checked scenario.
pub(crate) struct CheckedParts {
    pub seed: u64,
    pub network: NetworkSpec,
    pub protocol: Protocol,
    pub workload: Workload,
    pub faults: Faults,
    pub host: Option<HostSpec>,
}

/// Keys at the top level of a scenario, and their meanings.
pub(crate) const SECTIONS: [(&str, &str); 8] = [
    ("seed", "Seed of all that is drawn at random. Default 1."),
    ("network", "Topology, links and switches."),
    ("fabric", "The protocol that carries the traffic, and its parameters."),
    ("host", "What is inside hosts. Default: nothing that takes time."),
    ("workload", "What the rack is asked to do."),
    ("failures", "Links and switches that are down for a while. Default: none."),
    ("bit_errors", "How often links flip bits. Default: never."),
    (
        "extends",
        "Another scenario file, relative to this one, whose values apply to keys that this file does not set.",
    ),
];

/// Seed of a scenario that sets none.
const DEFAULT_SEED: u64 = 1;

/// Keys of the table `network`, except `topology`.
#[derive(Deserialize, JsonSchema)]
#[serde(default)]
struct NetworkKeys {
    link: LinkSpec,
    /// Link between switches. Default: equal to `link`.
    core_link: Option<LinkSpec>,
    /// Link of each host to the CXL switch of its rack, on a `drack` or with `[host]`. Default: 500 Gb/s and
    /// 55 ns (DRack §2.4, §7.1).
    cxl_link: Option<LinkSpec>,
    switch: SwitchSpec,
    /// Largest packet, without headers of the fabric. Default 1500 B, as on Ethernet.
    mtu: Bytes,
    headers: Headers,
}

impl Default for NetworkKeys {
    fn default() -> NetworkKeys {
        let (link, switch, headers) = (LinkSpec::default(), SwitchSpec::default(), Headers::default());
        NetworkKeys { link, core_link: None, cxl_link: None, switch, mtu: Bytes::new(1500), headers }
    }
}

impl<'a> Checker<'a> {
    /// Creates a checker of the scenario `root` with an empty list of problems.
    pub(crate) fn new(root: &'a Node, sources: &'a [Source], known: &'a KnownNames) -> Checker<'a> {
        Checker { root, sources, known, problems: Vec::new() }
    }

    /// Returns the parts of the scenario if it has no problem. Otherwise it returns `None`, and `problems` is not
    /// empty.
    pub(crate) fn parts(&mut self) -> Option<CheckedParts> {
        self.refuse_unknown_sections();
        let seed = match self.root.get("seed") {
            Some(seed) => self.decode(seed, "seed"),
            None => Some(DEFAULT_SEED),
        };
        let network = self.network();
        let names = self.known.names(|_| true);
        let protocol =
            self.chosen("fabric", "protocol", &names).and_then(|(name, _)| self.known.protocol(name));
        let workload = self.workload(network.as_ref());
        let faults = self.faults(network.as_ref(), protocol);
        let host = self.host(network.as_ref(), protocol);
        if let (Some(network), Some(protocol)) = (&network, protocol) {
            self.check_sharing(network.switch.buffer, protocol);
        }
        let parts = CheckedParts {
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
            let known = SECTIONS.map(|(name, _)| name);
            if !known.contains(&key.as_str()) {
                let message =
                    format!("the scenario has no key `{}`{}", key.escape_debug(), hint(key, &known));
                self.problems.push(ScenarioProblem::at(entry.key, message));
            }
        }
    }

    fn network(&mut self) -> Option<NetworkSpec> {
        let table = self.table("network")?;
        let topology = self.topology();
        let common = self.decode_beside::<NetworkKeys>(&table.without("topology"), "network", "topology");
        let (topology, NetworkKeys { link, core_link, cxl_link, switch, mtu, headers }) =
            (topology?, common?);
        if cxl_link.is_some() && topology.wiring().is_none() && self.root.get("host").is_none() {
            let message = format!(
                "only hosts of a `drack` have such a link, not those of a `{}` without `[host]`",
                topology.kind()
            );
            self.complain("network.cxl_link", message);
        }
        let (core_link, cxl_link) = (core_link.unwrap_or(link), cxl_link.unwrap_or(LinkSpec::CXL));
        let network = NetworkSpec { topology, link, core_link, cxl_link, switch, mtu, headers };
        self.check_network(&network);
        Some(network)
    }

    fn topology(&mut self) -> Option<TopologySpec> {
        let path = "network.topology";
        let kinds = self.known.all_topologies();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let (name, rest) = self.chosen(path, "kind", &names)?;
        let kind = kinds.into_iter().find(|kind| kind.name == name)?;
        (kind.read)(self, &rest)
    }

    /// Reads the workload. Conditions that involve the network are checked only if the network itself is valid.
    fn workload(&mut self, network: Option<&NetworkSpec>) -> Option<Workload> {
        let (kind, rest) = self.chosen("workload", "kind", Workload::KINDS)?;
        let mut workload = match kind {
            "memory" => self.decode_beside(&rest, "workload", "kind").map(Workload::Memory),
            "flows" => self.decode_beside(&rest, "workload", "kind").map(Workload::Flows),
            "collective" => self.decode_beside(&rest, "workload", "kind").map(Workload::Collective),
            "jobs" => self.decode_beside(&rest, "workload", "kind").map(Workload::Jobs),
            _ => self.decode_beside(&rest, "workload", "kind").map(Workload::Trace),
        }?;
        self.place_files(&mut workload);
        if let Some(network) = network {
            fill_blades(&mut workload, network.topology.nodes());
            self.check_workload(&workload, network);
        }
        Some(workload)
    }

    /// Resolves the files of the workload relative to the scenario file that names them.
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
        let place = self.root.nearest_place(path);
        let folder = match place.map(|place| &self.sources[place.source].origin) {
            Some(Origin::File { folder, .. }) => folder.clone(),
            Some(Origin::Override) | None => PathBuf::new(),
        };
        file.path = folder.join(&file.written);
    }

    /// Returns the word that selects the kind of the table at `path`, and the table without that word.
    fn chosen(&mut self, path: &str, tag: &str, words: &[&'static str]) -> Option<(&'static str, Node)> {
        let table = self.table(path)?;
        let Some(word) = table.get(tag) else {
            self.missing(path, table, tag);
            return None;
        };
        let tag_path = format!("{path}.{tag}");
        let Value::Text(text) = &word.value else {
            self.complain(&tag_path, format!("no such choice: {}{}", word.describe(), hint("", words)));
            return None;
        };
        match words.iter().find(|known| *known == text) {
            Some(known) => Some((known, table.without(tag))),
            None => {
                let shown = word.describe();
                self.complain(&tag_path, format!("no such choice: {shown}{}", hint(text, words)));
                None
            }
        }
    }

    /// Returns the table at a dotted path. If there is none, reports a problem and returns `None`.
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

    /// Reports that a table lacks a key. If the table has a similar key, the report suggests the correct spelling.
    fn missing(&mut self, path: &str, table: &Node, key: &str) {
        let path = if path.is_empty() { "the scenario" } else { path };
        let keys = || table.table().into_iter().flatten();
        let names: Vec<&str> = keys().map(|(name, _)| name.as_str()).collect();
        let near = nearest(key, &names).and_then(|near| keys().find(|(name, _)| *name == near));
        self.problems.push(match near {
            Some((near, entry)) => {
                let near = near.escape_debug();
                ScenarioProblem::at(entry.key, format!("{path} has no key `{near}`; did you mean `{key}`?"))
            }
            None => ScenarioProblem::at(table.place, format!("{path} needs `{key}`")),
        });
    }

    pub(crate) fn complain(&mut self, path: &str, message: impl std::fmt::Display) {
        let place = self.root.nearest_place(path);
        self.problems.push(ScenarioProblem::at(place, format!("{path}: {message}")));
    }

    fn decode<T: DeserializeOwned>(&mut self, node: &Node, path: &str) -> Option<T> {
        decode(node, path, &mut self.problems)
    }

    /// Decodes a table whose key `beside` has been read separately.
    pub(crate) fn decode_beside<T: DeserializeOwned>(
        &mut self,
        node: &Node,
        path: &str,
        beside: &str,
    ) -> Option<T> {
        decode_beside(node, path, &[beside], &mut self.problems)
    }
}

/// Returns the schema of `network`, without its topology.
pub(crate) fn common_schema() -> Schema {
    let mut network = schema::for_type::<NetworkKeys>();
    network["properties"]["cxl_link"]["default"] = json!(LinkSpec::CXL);
    network
}

/// Returns the schema of `network` with this topology.
pub(crate) fn network_schema(topology: &TopologySpec) -> Schema {
    let mut network = common_schema();
    let shape = schema::described("How nodes and switches are connected.", kinds::schema_of(topology));
    network["properties"]["topology"] = shape;
    network
}

/// Sets the default blades of a captured program: half of the nodes run the program, and the other half holds its
/// memory.
fn fill_blades(workload: &mut Workload, nodes: u32) {
    if let Workload::Trace(Trace { blades: blades @ None, .. }) = workload {
        *blades = Some(Blades::half(nodes));
    }
}
