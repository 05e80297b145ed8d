//! Tests of the rates, against a textbook water-filling with real numbers and against settling from scratch.

use super::*;
use proptest::prelude::*;

const LINKS: usize = 6;

fn gbps(gbps: u64) -> Rate {
    Rate::from_gbps(gbps)
}

fn shares(of: &[(u32, f64)]) -> Arc<[LinkShare]> {
    of.iter()
        .map(|(link, share)| LinkShare { link: *link, share: (share * f64::from(LinkShare::ONE)) as u32 })
        .collect()
}

/// Requirements of a flow, and its share on each link.
type Drawn = (Requirements, Arc<[LinkShare]>);

fn any_flow() -> impl Strategy<Value = Drawn> {
    let share =
        prop_oneof![3 => Just(0u32), 1 => Just(LinkShare::ONE), 2 => LinkShare::ONE / 64..2 * LinkShare::ONE];
    let demand = prop_oneof![2 => Just(UNLIMITED), 1 => 0u32..20_000_000];
    (1u8..5, 0u8..3, demand, prop::collection::vec(share, LINKS)).prop_map(
        |(weight, priority, demand_kbps, on)| {
            let on = on.into_iter().enumerate().filter(|(_, share)| *share > 0);
            let shares = on.map(|(link, share)| LinkShare { link: link as u32, share }).collect();
            (Requirements { weight, priority, demand_kbps }, shares)
        },
    )
}

fn any_links() -> impl Strategy<Value = Vec<Rate>> {
    prop::collection::vec((0u64..40).prop_map(gbps), LINKS)
}

/// Returns the rates of a textbook algorithm: all rates rise in small steps, computed with real numbers and dense
/// matrices.
fn textbook(links: &[Rate], headroom: f64, flows: &[Drawn]) -> Vec<f64> {
    let mut left: Vec<f64> = links.iter().map(|rate| rate.as_bps() as f64 * (1.0 - headroom) / 1e3).collect();
    let mut rates = vec![0.0; flows.len()];
    let on = |flow: usize, link: usize| -> f64 {
        let found = flows[flow].1.iter().find(|share| share.link as usize == link);
        found.map_or(0.0, |share| f64::from(share.share) / f64::from(LinkShare::ONE))
    };
    for priority in 0..=2 {
        let mut rising: Vec<usize> = (0..flows.len()).filter(|f| flows[*f].0.priority == priority).collect();
        while !rising.is_empty() {
            let weight = |f: usize| f64::from(flows[f].0.weight);
            let slope = |link| rising.iter().map(|f| weight(*f) * on(*f, link)).sum::<f64>();
            let of_link =
                |link: usize| if slope(link) > 0.0 { left[link] / slope(link) } else { f64::INFINITY };
            let of_flow = |f: &usize| (f64::from(flows[*f].0.demand_kbps) - rates[*f]) / weight(*f);
            let step =
                (0..LINKS).map(of_link).chain(rising.iter().map(of_flow)).fold(f64::INFINITY, f64::min);
            let slopes: Vec<f64> = (0..LINKS).map(slope).collect();
            rising.iter().for_each(|f| rates[*f] += step * weight(*f));
            left.iter_mut().zip(&slopes).for_each(|(left, slope)| *left -= step * slope);
            let full: Vec<usize> =
                (0..LINKS).filter(|link| left[*link] < 1e-3 && slopes[*link] > 0.0).collect();
            rising.retain(|f| {
                let stops = full.iter().any(|link| on(*f, *link) > 0.0);
                !stops && rates[*f] < f64::from(flows[*f].0.demand_kbps) - 1e-3
            });
        }
    }
    rates
}

proptest! {
    #[test]
    fn rates_are_those_of_the_textbook(
        links in any_links(), headroom in 0.0f64..0.5, flows in prop::collection::vec(any_flow(), 1..12),
    ) {
        let mut rates = Rates::new(links.iter().copied(), headroom);
        let slots: Vec<Slot> = flows.iter().map(|(asked, shares)| rates.add(*asked, shares.clone())).collect();
        rates.settle();
        for (slot, expected) in slots.iter().zip(textbook(&links, headroom, &flows)) {
            // Rates are whole Kb/s: each settled flow leaves a fraction of 1 Kb/s to others, and a link may carry only
            // 1/64 of a flow.
            let got = f64::from(rates.kbps(*slot));
            prop_assert!((got - expected).abs() < 10_000.0 + expected * 1e-5, "{got} for {expected}");
        }
    }

    /// Whatever flows come and go, no link is promised more than it has, and no rate depends on the past.
    #[test]
    fn what_changes_is_settled_as_all_would_be(
        links in any_links(),
        steps in prop::collection::vec((any_flow(), any::<u32>(), 0u8..4), 1..60),
    ) {
        let mut rates = Rates::new(links.iter().copied(), 0.05);
        let mut there: Vec<(Slot, Drawn)> = Vec::new();
        for (flow, which, what) in steps {
            match what {
                0 if !there.is_empty() => {
                    let (slot, _) = there.swap_remove(which as usize % there.len());
                    rates.remove(slot);
                }
                1 if !there.is_empty() => {
                    let n = which as usize % there.len();
                    let (slot, drawn) = &mut there[n];
                    drawn.0 = flow.0;
                    *slot = rates.ask(*slot, flow.0);
                }
                _ => there.push((rates.add(flow.0, flow.1.clone()), flow)),
            }
            if which % 3 == 0 {
                rates.settle();
                let mut anew = rates.clone();
                anew.settle_anew();
                // The state of a node that has just heard of all flows.
                let mut other = Rates::new(links.iter().copied(), 0.05);
                let add = |(_, (asked, shares)): &(Slot, Drawn)| other.add(*asked, shares.clone());
                let of_other: Vec<Slot> = there.iter().map(add).collect();
                other.settle();
                for ((slot, _), of_other) in there.iter().zip(of_other) {
                    prop_assert_eq!(rates.kbps(*slot), other.kbps(of_other));
                }
                let mut taken = [0u64; LINKS];
                for (slot, (asked, shares)) in &there {
                    prop_assert_eq!(rates.kbps(*slot), anew.kbps(*slot));
                    prop_assert_eq!(rates.asked(*slot), *asked);
                    for LinkShare { link, share } in &**shares {
                        taken[*link as usize] += u64::from(*share) * u64::from(rates.kbps(*slot));
                    }
                }
                for (link, taken) in taken.into_iter().enumerate() {
                    let LinkLoad { left, rising } = rates.loads[link];
                    prop_assert!(taken <= rates.capacity[link]);
                    let counted = if rates.rooms[link].is_watched() { taken } else { 0 };
                    prop_assert_eq!((left, rising), (rates.capacity[link] - counted, 0));
                }
                prop_assert_eq!(rates.len(), there.len());
            }
        }
    }
}

proptest! {
    /// Whatever was tried before, the rates of a trial are those of flows without other choices. Tops on thin links
    /// are cut.
    #[test]
    fn a_trial_is_as_if_there_were_no_other_choices(
        links in any_links(),
        flows in prop::collection::vec(prop::collection::vec(any_flow(), 1..4), 1..30),
        thinner in prop_oneof![Just(0u32), 0u32..24],
        chosen in prop::collection::vec(prop::collection::vec(any::<u8>(), 30), 1..8),
    ) {
        let empty = Rates::new(links.iter().copied(), 0.05);
        let thin = |LinkShare { link, share }: &LinkShare| LinkShare { link: *link, share: (share >> thinner).max(1) };
        let candidate = |choices: &Vec<Drawn>| -> (Requirements, Vec<Vec<LinkShare>>) {
            (choices[0].0, choices.iter().map(|(_, shares)| shares.iter().map(thin).collect()).collect())
        };
        let flows: Vec<(Requirements, Vec<Vec<LinkShare>>)> = flows.iter().map(candidate).collect();
        let mut trials =
            Trials::new(&empty, flows.iter().map(|(asked, lists)| (*asked, lists.iter().map(Vec::as_slice))));
        for mut chosen in chosen {
            chosen.truncate(flows.len());
            let both = flows.iter().zip(&mut chosen);
            both.for_each(|((_, lists), chosen)| *chosen %= lists.len() as u8);
            let mut alone = empty.clone();
            let both = flows.iter().zip(&chosen);
            let add = both.map(|((asked, lists), chosen)| {
                alone.add(*asked, lists[usize::from(*chosen)].clone().into())
            });
            let slots: Vec<Slot> = add.collect();
            alone.settle();
            let expected: Vec<u32> = slots.into_iter().map(|slot| alone.kbps(slot)).collect();
            prop_assert_eq!(trials.rate(&chosen), expected);
        }
    }
}

/// Example of R2C2 fig. 4: links 1-4, 1-3, 2-3, 3-4 of equal capacity. Half of the first flow and all of the second
/// flow go through node 3.
#[test]
fn two_flows_of_the_paper() {
    let mut rates = Rates::new([gbps(1); 4], 0.0);
    let split = rates.add(Requirements::default(), shares(&[(0, 0.5), (1, 0.5), (3, 0.5)]));
    let other = rates.add(Requirements::default(), shares(&[(2, 1.0), (3, 1.0)]));
    rates.settle();
    assert_eq!((rates.kbps(split), rates.kbps(other)), (666_666, 666_666));
    rates.remove(split);
    let straight = rates.add(Requirements::default(), shares(&[(0, 1.0)]));
    rates.settle();
    assert_eq!((rates.kbps(straight), rates.kbps(other)), (1_000_000, 1_000_000));
}

#[test]
fn what_one_cannot_use_others_get() {
    let mut rates = Rates::new([gbps(10)], 0.05);
    let whole = || shares(&[(0, 1.0)]);
    let limited = rates.add(Requirements { demand_kbps: 1_500_000, ..Requirements::default() }, whole());
    let [one, three] =
        [1, 3].map(|weight| rates.add(Requirements { weight, ..Requirements::default() }, whole()));
    let later = rates.add(Requirements { priority: 1, ..Requirements::default() }, whole());
    rates.settle();
    let got = [limited, one, three, later].map(|slot| rates.kbps(slot));
    assert_eq!(got, [1_500_000, 2_000_000, 6_000_000, 0]);
    rates.remove(three);
    rates.remove(one);
    rates.settle();
    assert_eq!([limited, later].map(|slot| rates.kbps(slot)), [1_500_000, 8_000_000]);
}
