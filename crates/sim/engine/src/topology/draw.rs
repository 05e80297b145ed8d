//! Picture of a network: hosts at the bottom, a row for each tier of switches, and a line for each cable.

use super::Topology;
use crate::link::LinkEnd;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Largest number of nodes that is drawn, because a picture of more nodes would be unreadable.
pub const MOST_NODES: u32 = 512;

const COLUMN: u32 = 30;
const ROW: u32 = 110;
const MARGIN: u32 = 40;
const BOX: (u32, u32) = (24, 18);
/// Height of the legend, and width of each entry.
const LEGEND: (u32, u32) = (36, 80);

/// Item in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PlacedItem {
    Host(u32),
    Nic(u32),
    Switch(u32),
}

impl PlacedItem {
    /// Returns the name of the kind of item, and the colour of its box.
    const fn kind(self) -> (&'static str, &'static str) {
        match self {
            PlacedItem::Host(_) => ("host", "#e8f0fe"),
            PlacedItem::Nic(_) => ("NIC", "#fff3d6"),
            PlacedItem::Switch(_) => ("switch", "#e3f4e6"),
        }
    }

    const fn number(self) -> u32 {
        match self {
            PlacedItem::Host(n) | PlacedItem::Nic(n) | PlacedItem::Switch(n) => n,
        }
    }

    /// Returns the box of the item around a point. Its label is the first letter of the kind and the number of the
    /// item.
    fn drawn(self, x: u32, y: u32) -> String {
        let letter = self.kind().0[..1].to_uppercase();
        drawn_box(self.kind().1, (x, y), &format!("{letter}{}", self.number()))
    }
}

fn drawn_box(fill: &str, (x, y): (u32, u32), text: &str) -> String {
    let (w, h) = BOX;
    format!(
        "<rect x=\"{}\" y=\"{}\" width=\"{w}\" height=\"{h}\" rx=\"3\" fill=\"{fill}\" stroke=\"#444\"/>\
         <text x=\"{x}\" y=\"{}\">{text}</text>",
        x - w / 2,
        y - h / 2,
        y + 3
    )
}

/// Returns one item of each kind in the picture, in the order of the rows.
fn kinds(rows: &[Vec<PlacedItem>]) -> Vec<PlacedItem> {
    let mut kinds: Vec<PlacedItem> = Vec::new();
    for thing in rows.iter().flatten() {
        if !kinds.iter().any(|known| known.kind() == thing.kind()) {
            kinds.push(*thing);
        }
    }
    kinds
}

/// Returns the legend at the top: a box for each kind of item, and a line for cables.
fn legend(kinds: &[PlacedItem]) -> String {
    let y = LEGEND.0 / 2;
    let mut svg = String::from("<g id=\"legend\">");
    let label = |x: u32, text: &str| {
        format!("<text x=\"{}\" y=\"{}\" font-size=\"11\" text-anchor=\"start\">{text}</text>", x + 18, y + 4)
    };
    for (n, thing) in (0..).zip(kinds) {
        let (x, (name, fill)) = (MARGIN + n * LEGEND.1, thing.kind());
        svg += &drawn_box(fill, (x, y), &name[..1].to_uppercase());
        svg += &label(x, name);
    }
    let x = MARGIN + kinds.len() as u32 * LEGEND.1;
    let _ = write!(svg, "<path d=\"M{} {y}h{}\" stroke=\"#999\"/>{}", x - 12, BOX.0, label(x, "cable"));
    svg + "</g>\n"
}

impl Topology {
    /// Returns an SVG picture of the network, which should have at most [`MOST_NODES`] nodes.
    pub fn draw(&self) -> String {
        let rows = rows(self);
        let widest = rows.iter().map(Vec::len).max().unwrap_or(1) as u32;
        let kinds = kinds(&rows);
        let width = (widest * COLUMN + 2 * MARGIN).max((kinds.len() as u32 + 1) * LEGEND.1 + MARGIN);
        let height = rows.len() as u32 * ROW + MARGIN + LEGEND.0;
        let places = places(&rows, width, height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"9\" text-anchor=\"middle\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<g stroke=\"#999\" stroke-width=\"0.7\">\n"
        );
        for (a, b) in self.cables() {
            let ((x1, y1), (x2, y2)) = (places[&a], places[&b]);
            let _ = writeln!(svg, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
        }
        svg.push_str("</g>\n");
        for (thing, (x, y)) in places {
            let name = thing.kind().0;
            let _ = writeln!(svg, "<g><title>{name} {}</title>{}</g>", thing.number(), thing.drawn(x, y));
        }
        svg + &legend(&kinds) + "</svg>\n"
    }

    /// Returns the two ends of each cable, each cable once.
    fn cables(&self) -> impl Iterator<Item = (PlacedItem, PlacedItem)> {
        let own_nics = self.attachments() == self.nodes();
        (0..self.ports()).filter_map(move |port| {
            let from = self.owner(port);
            let end = match (self.end(port), self.attachment_of(port)) {
                (LinkEnd::Switch(to), _) if to < from => return None,
                (LinkEnd::Switch(to), _) => PlacedItem::Switch(to),
                (LinkEnd::Node(_), Some(link)) if own_nics => PlacedItem::Host(link),
                (LinkEnd::Node(node), Some(link)) if link >= self.nodes() => PlacedItem::Host(node),
                (LinkEnd::Node(nic), _) => PlacedItem::Nic(nic),
            };
            Some((PlacedItem::Switch(from), end))
        })
    }
}

/// Returns the items of each row. The row of hosts is first.
fn rows(topology: &Topology) -> Vec<Vec<PlacedItem>> {
    let nodes = topology.nodes();
    let mut rows = vec![(0..nodes).map(PlacedItem::Host).collect::<Vec<_>>()];
    let mut tier_of: BTreeMap<u32, usize> = BTreeMap::new();
    let mut tier: Vec<u32> = (0..nodes).map(|node| topology.switch_of(node)).collect();
    tier.dedup();
    let mut nics = topology.attachments() > nodes;
    while !tier.is_empty() {
        tier.iter().for_each(|switch| {
            tier_of.insert(*switch, rows.len());
        });
        rows.push(tier.iter().copied().map(PlacedItem::Switch).collect());
        if std::mem::take(&mut nics) {
            rows.push((0..nodes).map(PlacedItem::Nic).collect());
            tier = (0..nodes).map(|nic| topology.switch_at(nic)).collect();
        } else {
            let ends = (0..topology.ports()).filter(|port| tier.contains(&topology.owner(*port)));
            tier = ends
                .filter_map(|port| match topology.end(port) {
                    LinkEnd::Switch(to) => Some(to),
                    LinkEnd::Node(_) => None,
                })
                .collect();
        }
        tier.sort_unstable();
        tier.dedup();
        tier.retain(|switch| !tier_of.contains_key(switch));
    }
    rows
}

/// Returns the centre of each item. Rows are placed from the bottom up, and items are spread evenly in their row.
fn places(rows: &[Vec<PlacedItem>], width: u32, height: u32) -> BTreeMap<PlacedItem, (u32, u32)> {
    let mut places = BTreeMap::new();
    for (row, things) in (0..).zip(rows) {
        let y = height - MARGIN - row * ROW;
        for (n, thing) in (0..).zip(things) {
            let x = MARGIN + (2 * n + 1) * (width - 2 * MARGIN) / (2 * things.len() as u32);
            places.insert(*thing, (x, y));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::tests::link;
    use super::*;
    use unrack_rack::Wiring;

    #[test]
    fn every_cable_is_a_line_between_two_things() {
        let wiring = Wiring { racks: 4, hosts_per_rack: 2, cores: 2 };
        let pooled = Topology::drack(wiring, link(100), link(100), link(500));
        // 8 CXL ports, 8 NICs, 4 aggregation switches with 2 links up.
        let svg = pooled.draw();
        assert_eq!(svg.matches("<line").count(), 8 + 8 + 8);
        assert_eq!(svg.matches("<title>NIC").count(), 8);
        assert_eq!(svg.matches("<title>switch").count(), 4 + 4 + 2);
        // Hosts, CXL switches, NICs, aggregation switches, core switches.
        assert_eq!(rows(&pooled).iter().map(Vec::len).collect::<Vec<_>>(), [8, 4, 8, 4, 2]);
        let tree = Topology::fat_tree(4, link(100), link(100));
        assert_eq!(rows(&tree).iter().map(Vec::len).collect::<Vec<_>>(), [16, 8, 8, 4]);
        assert_eq!(tree.draw().matches("<line").count(), 16 + 16 + 16);
        let star = Topology::star(3, link(100)).draw();
        let legend = |svg: &str| svg.split("id=\"legend\"").nth(1).unwrap().to_string();
        assert!(
            ["host", "NIC", "switch", "cable"].iter().all(|name| legend(&svg).contains(&format!(">{name}<")))
        );
        assert!(!legend(&star).contains(">NIC<") && legend(&star).contains(">host<"), "{star}");
        assert!(star.starts_with("<svg") && star.ends_with("</svg>\n") && star.matches("<line").count() == 3);
    }
}
