//! Cells whose colour depends on the logarithm of a count.

use crate::chart::style;
use crate::markup::{Attributes, Markup, Px};

/// Returns the smallest count of each colour class except the first, which is for a count of 0. The last class extends to `most`.
pub(super) fn steps(most: u64) -> Vec<f64> {
    let part = |step: usize| (step - 1) as f64 / (style::HEAT - 1) as f64;
    let least = |step: usize| ((part(step) * (most as f64).ln_1p()).exp_m1() + 1e-9).floor() + 1.0;
    (1..style::HEAT).map(least).collect()
}

/// Returns the number of the colour class of a value.
pub(super) fn class(steps: &[f64], value: f64) -> usize {
    steps.iter().filter(|step| value >= **step).count()
}

/// Draws a cell in the colour of its class.
pub(super) fn draw_cell(
    m: &mut Markup,
    class: usize,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    explanation: &str,
) {
    let class = format!("mark cell h{class}");
    let place: Attributes =
        &[("class", &class), ("x", &Px(x)), ("y", &Px(y)), ("width", &Px(width)), ("height", &Px(height))];
    m.explained("rect", place, explanation);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_run_from_none_to_the_most() {
        for most in [9, 1_000, 1_000_000] {
            let steps = steps(most);
            let last = style::HEAT - 1;
            assert_eq!((class(&steps, 0.0), class(&steps, most as f64)), (0, last), "{steps:?}");
            assert!(class(&steps, 1.0) >= 1 && steps.is_sorted());
        }
        assert_eq!(class(&steps(1_000_000), 1.0), 1);
    }
}
