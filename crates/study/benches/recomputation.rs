//! R2C2 fig. 8: what a node takes to compute rates, as a share of the interval: `cargo bench -p unrack-study`.
//!
//! 512 nodes, a flow every 1 us, sizes by Pareto's law (§5.1, §5.2), until 100,000 have begun. Timed is what a node does
//! once an interval: it counts the flows that have become old enough, with their weights, and settles all rates. All is run
//! several times, and of each interval the least counts: a busy machine adds to the others.

use std::time::Instant;
use unrack_protocol::r2c2::weights::Weights;
use unrack_study::fluid::{drawn, run, torus};
use unrack_study::random::Random;
use unrack_units::Time;

const FLOWS: usize = 100_000;
const TIMES: usize = 7;

fn main() {
    let torus = torus(&[8, 8, 8]);
    let flows = drawn(torus.nodes(), FLOWS, Time::from_us(1), &mut Random::new(8));
    let last = flows.last().expect("there are flows").start;
    for (interval_us, published) in
        [(500, "2012 Xeon 1.7 %, 7.9 %; 2009 Atom 33.5 %, 71.4 %"), (100, "2012 Xeon 17.6 %, 73.9 %")]
    {
        let interval = Time::from_us(interval_us);
        let mut shares = vec![f64::INFINITY; (last.as_ps() / interval.as_ps()) as usize];
        for _ in 0..TIMES {
            let (mut weights, mut least) = (Weights::new(torus.clone()), shares.iter_mut());
            run(&torus, &flows, interval, |view, now| {
                let start = Instant::now();
                view.settle(now, interval, &mut weights);
                let share = start.elapsed().as_secs_f64() / (interval_us as f64 * 1e-6);
                // Later there are but the flows that are left.
                least.next().into_iter().for_each(|least| *least = least.min(share));
            });
        }
        shares.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| shares[((shares.len() - 1) as f64 * share) as usize] * 100.0;
        println!(
            "rates once in {interval_us} us: median {:.2} %, 99th percentile {:.2} % of one core (published: {published})",
            at(0.5),
            at(0.99)
        );
    }
}
