//! Shares computed in another way, segment by segment on coordinates, with the variants that the notes of the study
//! mention.

use super::*;
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq)]
enum Ties {
    Both,
    Up,
}

/// Dimensions that come first in each of two phases; all pairs are equally likely.
type Orders = &'static [[usize; 2]];

const SAME: Orders = &[[0, 0]];
const OPPOSITE: Orders = &[[0, 1]];
const DRAWN: Orders = &[[0, 0], [0, 1], [1, 0], [1, 1]];

#[derive(Clone, Copy, PartialEq)]
enum Algorithm {
    DestinationTag,
    Romm,
    Rlb,
}

/// A link: where it begins, its dimension, and whether it leads up.
type Link = ([u32; 2], usize, bool);

/// Loads of links by one unit from node 0, by destination.
struct Variant(Vec<HashMap<Link, f64>>);

impl Variant {
    fn new(algorithm: Algorithm, ties: Ties, orders: Orders) -> Variant {
        let to = |dst: u32| {
            let mut loads = HashMap::new();
            let [x, y] = [dst / SIDE, dst % SIDE].map(|apart| ways(apart, algorithm, ties));
            for (x, y) in x.iter().flat_map(|x| y.iter().map(move |y| (x, y))) {
                let (up, hops) = ([x.0, y.0], [x.1, y.1]);
                let mut middles = vec![[0, 0]];
                if algorithm != Algorithm::DestinationTag {
                    let all = (0..=hops[0]).flat_map(|a| (0..=hops[1]).map(move |b| [a, b]));
                    middles = all.collect();
                }
                let amount = x.2 * y.2 / (middles.len() * orders.len()) as f64;
                for (middle, order) in
                    middles.iter().flat_map(|middle| orders.iter().map(move |o| (middle, o)))
                {
                    let mut at = [0, 0];
                    let rest = [hops[0] - middle[0], hops[1] - middle[1]];
                    walk(&mut at, *middle, up, order[0], amount, &mut loads);
                    walk(&mut at, rest, up, order[1], amount, &mut loads);
                    assert_eq!(at, [dst / SIDE, dst % SIDE]);
                }
            }
            loads
        };
        Variant((0..NODES).map(to).collect())
    }

    fn of(&self, src: u32, dst: u32) -> impl Iterator<Item = (Link, f64)> + '_ {
        let back = |to: u32, from: u32| (to + SIDE - from) % SIDE;
        let apart = back(dst / SIDE, src / SIDE) * SIDE + back(dst % SIDE, src % SIDE);
        let moved = move |at: [u32; 2]| [(at[0] + src / SIDE) % SIDE, (at[1] + src % SIDE) % SIDE];
        self.0[apart as usize]
            .iter()
            .map(move |((at, dimension, up), load)| ((moved(*at), *dimension, *up), *load))
    }

    fn share(&self, pattern: &str) -> f64 {
        if pattern == "worst_case" {
            let of_link = |dimension, up| {
                let pairs = (0..NODES).flat_map(|src| (0..NODES).map(move |dst| (src, dst)));
                let load = |(src, dst)| {
                    let here = self.of(src, dst).find(|(link, _)| *link == ([0, 0], dimension, up));
                    here.map_or(0.0, |(_, load)| load)
                };
                heaviest(&pairs.map(load).collect::<Vec<f64>>(), NODES as usize)
            };
            let links = [(0, true), (0, false), (1, true), (1, false)];
            return 1.0 / links.map(|(dimension, up)| of_link(dimension, up)).into_iter().fold(0.0, f64::max);
        }
        let (_, sends) = PATTERNS.iter().find(|(name, _)| *name == pattern).unwrap();
        let mut loads: HashMap<_, f64> = HashMap::new();
        for (src, dst) in (0..NODES).flat_map(|src| (0..NODES).map(move |dst| (src, dst))) {
            for (link, load) in self.of(src, dst).filter(|_| sends(src, dst) > 0.0) {
                *loads.entry(link).or_default() += load * sends(src, dst);
            }
        }
        1.0 / loads.into_values().fold(0.0, f64::max)
    }
}

/// Returns the ways around a ring: whether up, hops, probability.
fn ways(apart: u32, algorithm: Algorithm, ties: Ties) -> Vec<(bool, u32, f64)> {
    let (up, down) = (apart, (SIDE - apart) % SIDE);
    let short = if up <= down { (true, up) } else { (false, down) };
    match (algorithm, ties) {
        _ if apart == 0 => vec![(true, 0, 1.0)],
        (Algorithm::Rlb, _) => {
            let rest = f64::from(SIDE - short.1) / f64::from(SIDE);
            vec![(short.0, short.1, rest), (!short.0, SIDE - short.1, 1.0 - rest)]
        }
        (_, Ties::Both) if up == down => vec![(true, up, 0.5), (false, down, 0.5)],
        _ => vec![(short.0, short.1, 1.0)],
    }
}

fn walk(
    at: &mut [u32; 2],
    hops: [u32; 2],
    up: [bool; 2],
    first: usize,
    amount: f64,
    loads: &mut HashMap<Link, f64>,
) {
    for dimension in [first, 1 - first] {
        for _ in 0..hops[dimension] {
            *loads.entry((*at, dimension, up[dimension])).or_default() += amount;
            let step = if up[dimension] { 1 } else { SIDE - 1 };
            at[dimension] = (at[dimension] + step) % SIDE;
        }
    }
}

#[test]
fn shares_are_those_of_another_way_to_compute_them() {
    let all = all();
    for (routing, algorithm, orders) in [
        (Routing::DestinationTag, Algorithm::DestinationTag, SAME),
        (Routing::Romm, Algorithm::Romm, DRAWN),
        (Routing::Wlb, Algorithm::Rlb, DRAWN),
    ] {
        let variant = Variant::new(algorithm, Ties::Both, orders);
        for (_, pattern, share) in all.iter().filter(|(of, ..)| *of == routing) {
            assert!((variant.share(pattern) - share).abs() < 1e-9, "{routing} {pattern}: {share}");
        }
    }
}

#[test]
fn the_notes_of_the_study_are_true() {
    let rounded = |share: f64| (share * 100.0).round() / 100.0;
    let check = |variant: Variant, expected: &[(&str, f64)]| {
        for (pattern, share) in expected {
            assert_eq!(rounded(variant.share(pattern)), *share, "{pattern}");
        }
    };
    let one_way = Variant::new(Algorithm::DestinationTag, Ties::Up, SAME);
    check(one_way, &[("transpose", 0.25), ("worst_case", 0.25), ("uniform", 0.80)]);
    check(Variant::new(Algorithm::Romm, Ties::Both, SAME), &[("transpose", 0.44)]);
    check(Variant::new(Algorithm::Romm, Ties::Both, OPPOSITE), &[("transpose", 0.46)]);
    check(Variant::new(Algorithm::Rlb, Ties::Both, SAME), &[("transpose", 0.50)]);
    let opposite = Variant::new(Algorithm::Rlb, Ties::Both, OPPOSITE);
    check(opposite, &[("transpose", 0.57), ("bit_complement", 0.36), ("worst_case", 0.24)]);
}
