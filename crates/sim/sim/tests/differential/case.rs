//! A random network, fabric and workload, as both simulators get it.

use crate::draw::Draw;
use crate::params;
use serde_json::{Value, json};
use unrack_sim::network::{Network, Pace};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Setup};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Kind, Message};

pub(crate) struct Case {
    /// Seed of the case.
    pub number: u64,
    fabric: &'static str,
    shape: Shape,
    host: Cable,
    core: Cable,
    switch_latency: Time,
    ethernet: Ethernet,
    config: FabricConfig,
    /// Parameters of `config` for the reference.
    params: Value,
    pub messages: Vec<(Time, Message)>,
}

#[derive(Clone, Copy)]
enum Shape {
    Star { nodes: u32 },
    LeafSpine { racks: u32, hosts: u32, spines: u32 },
}

#[derive(Clone, Copy)]
struct Cable {
    rate: Rate,
    propagation: Time,
}

impl Cable {
    fn draw(draw: &mut Draw, gbps: &[u64]) -> Cable {
        let rate = Rate::from_gbps(draw.one(gbps));
        Cable { rate, propagation: Time::from_ps(draw.one(&[10_000, 313_131, 2_000_003])) }
    }
    fn link(self) -> Link {
        Link { pace: Pace::new(self.rate), propagation: self.propagation }
    }
}

/// Quantities from which parameters are chosen.
pub(crate) struct Scale {
    /// Upper bound of the round trip.
    pub round_trip: Time,
    /// Bytes of a full packet on the wire.
    pub packet: u64,
    /// Maximum bytes that may come to a port after it has asked for a pause.
    pub headroom: u64,
}

impl Case {
    pub(crate) fn draw(fabric: &'static str, number: u64) -> Case {
        let draw = &mut Draw::new(number);
        let shape = match ["ideal", "edm"].contains(&fabric) || draw.flip() {
            true => Shape::Star { nodes: 2 + draw.below(5) as u32 },
            false => Shape::LeafSpine {
                racks: 1 + draw.below(3) as u32,
                hosts: 2 + draw.below(2) as u32,
                spines: 1 + draw.below(3) as u32,
            },
        };
        let host = Cable::draw(draw, if fabric == "edm" { &[25, 40, 100, 400] } else { &[10, 25, 40, 100] });
        let core = Cable::draw(draw, &[100, 200, 400]);
        let switch_latency = Time::from_ps(draw.one(&[0, 400_000]));
        let mtu = draw.one(&[256, 1500, 9000]);
        let headers = ["tcp", "dctcp"].contains(&fabric) || draw.below(4) > 0;
        let scale = Scale::of(host, core, switch_latency, mtu);
        // Room for a few packets, or for everything that can come.
        let room = draw.one(&[2, 7, 30]) * scale.packet;
        let buffer = match fabric {
            "pfc-dcqcn" => scale.headroom + room,
            _ if draw.below(3) == 0 => 1 << 40,
            _ => room,
        };
        let cut_through = draw.flip();
        let ethernet = Ethernet {
            mtu: Bytes::new(mtu),
            headers,
            buffer: SwitchBuffer::Private(Bytes::new(buffer)),
            cut_through,
        };
        let (config, params) = params::draw(fabric, draw, &scale);
        let largest = match fabric {
            "edm" | "cxl" => draw.one(&[64, 1_000, 10_000]),
            _ => draw.one(&[1, 4, 20, 60]) * mtu,
        };
        // Receivers of homa adapt when they have seen 256 transfers.
        let (most, largest) = match fabric == "homa" && draw.below(50) == 0 {
            true => (600, largest.min(3 * mtu)),
            false => (16, largest),
        };
        let messages = messages(draw, shape.nodes(), (most, largest));
        Case { number, fabric, shape, host, core, switch_latency, ethernet, config, params, messages }
    }

    pub(crate) fn setup(&self) -> Setup {
        let topology = match self.shape {
            Shape::Star { nodes } => Topology::star(nodes, self.host.link()),
            Shape::LeafSpine { racks, hosts, spines } => {
                Topology::leaf_spine(racks, hosts, spines, self.host.link(), self.core.link())
            }
        };
        let network = Network { topology, switch_latency: self.switch_latency };
        let (ethernet, fabric) = (self.ethernet, self.config.clone());
        Setup { network, ethernet, fabric, seed: SEED, time_limit: Time::MAX }
    }

    pub(crate) fn json(&self) -> Value {
        let message = |(at, message): &(Time, Message)| {
            let Message { src, dst, kind, request, bytes, .. } = *message;
            let kind: Kind = kind;
            json!({
                "at_ps": at.as_ps(), "src": src, "dst": dst, "kind": kind.name(), "request": request, "bytes": bytes,
            })
        };
        let mut case = json!({
            "fabric": self.fabric,
            "seed": SEED,
            "nodes": self.shape.nodes(),
            "rate_bps": self.host.rate.as_bps(),
            "propagation_ps": self.host.propagation.as_ps(),
            "switch_latency_ps": self.switch_latency.as_ps(),
            "mtu": self.ethernet.mtu.get(),
            "headers": self.ethernet.headers,
            "buffer": self.ethernet.buffer.of_port().get(),
            "cut_through": self.ethernet.cut_through,
            "messages": self.messages.iter().map(message).collect::<Vec<_>>(),
        });
        let all = case.as_object_mut().expect("a case is an object");
        if let Shape::LeafSpine { racks, hosts, spines } = self.shape {
            all.insert("racks".into(), racks.into());
            all.insert("hosts".into(), hosts.into());
            all.insert("spines".into(), spines.into());
            all.insert("core_rate_bps".into(), self.core.rate.as_bps().into());
            all.insert("core_propagation_ps".into(), self.core.propagation.as_ps().into());
        }
        all.extend(self.params.as_object().expect("parameters are an object").clone());
        case
    }
}

/// Seed of the random numbers that a fabric draws itself.
const SEED: u64 = 1;

impl Shape {
    fn nodes(self) -> u32 {
        match self {
            Shape::Star { nodes } => nodes,
            Shape::LeafSpine { racks, hosts, .. } => racks * hosts,
        }
    }
}

impl Scale {
    fn of(host: Cable, core: Cable, switch_latency: Time, mtu: u64) -> Scale {
        let packet = mtu + 90;
        let (host, core) = (host.link(), core.link());
        let one_way = [host, core, core, host]
            .into_iter()
            .fold(switch_latency * 3, |time, link| time + link.propagation + link.pace.transmit(packet));
        let headroom = [host, core]
            .into_iter()
            .map(|link| link.pace.bytes_in(link.propagation * 2 + switch_latency) + 1 + 3 * packet + 84);
        Scale { round_trip: one_way * 2, packet, headroom: headroom.max().expect("two links") }
    }
}

/// Draws messages; if there are many, all go to one node.
fn messages(draw: &mut Draw, nodes: u32, (most, largest): (u64, u64)) -> Vec<(Time, Message)> {
    let span = draw.one(&[100_000, 1_000_000, 20_000_000, 200_000_000]);
    let count = if most > 16 { most } else { 1 + draw.below(most) };
    let mut messages: Vec<(Time, Message)> = (0..count)
        .map(|_| {
            let src = draw.below(u64::from(nodes)) as u32;
            let dst = (src + 1 + draw.below(u64::from(nodes - 1)) as u32) % nodes;
            let (src, dst) = if count > 16 { (1 + src % (nodes - 1), 0) } else { (src, dst) };
            let make = draw.one(&[Message::read, Message::write, Message::rmw, Message::flow]);
            (Time::from_ps(draw.below(span)), make(src, dst, 1 + draw.below(largest)))
        })
        .collect();
    messages.sort_by_key(|(at, _)| *at);
    messages
}
