//! The branch predictor learns what repeats, and returns what called.

use super::*;

const CONDITIONAL: Flow = Flow { ending: BlockEnding::Conditional, target: 0x900, is_call: false };

/// Returns the share of mispredictions of a branch with these outcomes, after it has seen half of them.
fn mispredicted(outcomes: impl Iterator<Item = bool>, count: usize) -> f64 {
    let mut predictor = Predictor::new();
    let mut wrong = 0;
    for (index, is_taken) in outcomes.take(count).enumerate() {
        let next = if is_taken { 0x900 } else { 0x802 };
        let is_wrong = predictor.is_mispredicted(&CONDITIONAL, 0x800, 0x802, next);
        wrong += (is_wrong && index >= count / 2) as usize;
    }
    wrong as f64 / (count - count / 2) as f64
}

#[test]
fn loops_within_the_history_are_learnt_and_their_ends_too() {
    for length in [2, 3, 7, 20, 55] {
        let share = mispredicted((0..).map(|index| index % length != length - 1), 40_000);
        assert!(share < 0.001, "loop of {length}: {share}");
    }
}

#[test]
fn a_loop_beyond_the_history_misses_its_end_only() {
    let share = mispredicted((0..).map(|index| index % 1000 != 999), 100_000);
    assert!((0.0009..0.003).contains(&share), "{share}");
}

#[test]
fn coin_flips_are_guessed_half_of_the_time() {
    let mut random = unrack_basis::SplitMix64::new(7);
    let share = mispredicted(std::iter::repeat_with(|| random.next_u64() & 1 == 1), 100_000);
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn returns_find_their_calls_up_to_the_depth_of_the_stack() {
    let call = Flow { ending: BlockEnding::Jump, target: 0x5000, is_call: true };
    let back = Flow { ending: BlockEnding::Return, target: 0, is_call: false };
    for (depth, wrong) in [(8, 0), (RETURNS, 0), (RETURNS + 3, 3)] {
        let mut predictor = Predictor::new();
        for level in 0..depth as u64 {
            assert!(!predictor.is_mispredicted(&call, level * 16, level * 16 + 5, 0x5000));
        }
        let returned = (0..depth as u64).rev();
        let missed =
            returned.filter(|level| predictor.is_mispredicted(&back, 0x6000, 0x6001, level * 16 + 5));
        assert_eq!(missed.count(), wrong, "{depth} calls");
    }
}

#[test]
fn an_indirect_branch_is_predicted_from_the_targets_before_it() {
    let flow = Flow { ending: BlockEnding::Indirect, target: 0, is_call: false };
    let mut predictor = Predictor::new();
    let targets = [0x1000, 0x2040, 0x1000, 0x3080];
    let mut rounds = (0..100).map(|_| {
        targets.iter().filter(|&&target| predictor.is_mispredicted(&flow, 0x700, 0x702, target)).count()
    });
    assert!(rounds.next().unwrap() > 0);
    assert_eq!(rounds.skip(50).sum::<usize>(), 0);
}
