//! Mixture of experts with expert parallelism (FasterMoE, PPoPP 2022). In each layer, a rank sends each of its tokens to the
//! ranks of the experts that the gate selects, each expert computes the tokens that it got, and the results return.
//!
//! A gate is a part of a trained model, which is not run here. Instead, experts are drawn by Zipf's law. Which experts are
//! popular differs from layer to layer, as in FasterMoE's measurements.

use super::tasks::{Builder, Tasks};
use crate::random::{DrawPurpose, Generator, below, drawn, generator};
use crate::source::TaskLoads;
use rand_distr::{Distribution, Zipf};
use std::sync::Arc;
use unrack_basis::mix;
use unrack_rack::jobs::Experts;
use unrack_units::Time;

/// Bytes of a value of a token, which is a number of single precision.
const VALUE_BYTES: u64 = 4;

/// Returns one round that contains all layers. A rank starts the next layer when it has the results of all its tokens.
pub fn experts(spec: &Experts, ranks: u32, seed: u64) -> Vec<Arc<Tasks>> {
    let takes = |tokens: u64| Time::from_secs_f64(tokens as f64 / f64::from(spec.tokens_per_s));
    let token_bytes = u64::from(spec.hidden) * VALUE_BYTES;
    let mut builder = Builder::new();
    let mut begins: Vec<u32> = (0..ranks).map(|rank| builder.task(rank, Time::ZERO)).collect();
    for layer in 0..spec.layers {
        let tokens = routed(spec, ranks, seed, layer);
        let got = |expert: u32| tokens.iter().map(|of_rank| of_rank[expert as usize]).sum::<u64>();
        let computes: Vec<u32> = (0..ranks).map(|rank| builder.task(rank, takes(got(rank)))).collect();
        let ends: Vec<u32> = (0..ranks).map(|rank| builder.task(rank, Time::ZERO)).collect();
        for rank in 0..ranks {
            let came = got(rank) - tokens[rank as usize][rank as usize];
            builder.loads(
                computes[rank as usize],
                TaskLoads { came: came * token_bytes, ..TaskLoads::default() },
            );
            // The order is staggered, so that the ranks do not all start with the same target.
            for other in (1..=ranks).map(|ahead| ((rank + ahead) % ranks) as usize) {
                let bytes = tokens[rank as usize][other] * token_bytes;
                let (from, to) = (begins[rank as usize], ends[rank as usize]);
                if other == rank as usize || bytes == 0 {
                    builder.after(from, computes[other]);
                    builder.after(computes[other], to);
                } else {
                    builder.send(from, computes[other], bytes);
                    builder.send(computes[other], to, bytes);
                }
            }
        }
        begins = ends;
    }
    vec![Arc::new(builder.finish())]
}

/// Returns the number of tokens that each rank sends to each rank in a layer, by sender and receiver.
fn routed(spec: &Experts, ranks: u32, seed: u64, layer: u32) -> Vec<Vec<u64>> {
    let count = spec.experts.unwrap_or(ranks);
    let zipf =
        Zipf::new(f64::from(count), spec.exponent).expect("checked: at least an expert, no less than 0");
    // The most popular expert of the layer, after which the others follow in turn.
    let first = below(&mut generator(seed, DrawPurpose::Experts, layer), count);
    let of_rank = |rank: u32| {
        let mut draws = generator(mix(seed ^ u64::from(layer + 1)), DrawPurpose::Experts, rank);
        let mut tokens = vec![0; ranks as usize];
        for _ in 0..spec.tokens {
            for expert in chosen(spec.top.min(count), count, &zipf, &mut draws) {
                tokens[((first + expert) % count % ranks) as usize] += 1;
            }
        }
        tokens
    };
    (0..ranks).map(of_rank).collect()
}

/// Draws `top` different experts, by their popularity.
fn chosen(top: u32, count: u32, zipf: &Zipf<f64>, draws: &mut Generator) -> Vec<u32> {
    let mut chosen = Vec::with_capacity(top as usize);
    while chosen.len() < top as usize {
        let expert = drawn(zipf.sample(draws), count);
        if !chosen.contains(&expert) {
            chosen.push(expert);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(exponent: f64) -> Experts {
        Experts {
            layers: 3,
            tokens: 500,
            experts: None,
            top: 2,
            hidden: 16,
            exponent,
            tokens_per_s: 1_000_000,
        }
    }

    #[test]
    fn each_token_goes_to_two_experts_and_returns() {
        let tasks = &experts(&spec(1.0), 8, 3)[0];
        // The rate is a million tokens per second: 8 ranks with 500 tokens, twice, in 3 layers.
        assert_eq!(tasks.computed(), Time::from_us(8 * 500 * 2 * 3));
        let mut sent = vec![vec![0u64; 8]; 8];
        tasks.messages().for_each(|(from, to, bytes)| sent[from as usize][to as usize] += bytes);
        for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
            let both = (sent[from][to], sent[to][from]);
            assert!(both.0 == both.1, "what comes as a token returns as a result: {both:?}");
        }
        let all: u64 = sent.iter().flatten().sum();
        assert!(all < 2 * 8 * 500 * 2 * 3 * 64, "tokens for experts of their own rank are not sent");
    }

    #[test]
    fn popular_experts_get_more_tokens() {
        let busiest = |exponent| {
            let tokens = routed(&spec(exponent), 8, 1, 0);
            let got = |rank: usize| tokens.iter().map(|of_rank| of_rank[rank]).sum::<u64>();
            (0..8).map(got).max().unwrap() as f64 / (2.0 * 500.0)
        };
        // With exponent 1, the first of eight experts has 37 % of the first choices.
        assert!(busiest(1.0) > 2.0 && busiest(0.0) < 1.2, "{} {}", busiest(1.0), busiest(0.0));
    }

    #[test]
    fn other_experts_are_popular_in_other_layers() {
        let hottest = |layer| {
            let tokens = routed(&spec(2.0), 8, 1, layer);
            let got = |rank: &usize| tokens.iter().map(|of_rank| of_rank[*rank]).sum::<u64>();
            (0..8).max_by_key(got).unwrap()
        };
        let all: std::collections::BTreeSet<usize> = (0..8).map(hottest).collect();
        assert!(all.len() > 2, "{all:?}");
    }
}
