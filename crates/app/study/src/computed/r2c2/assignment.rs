//! The assignment problem.

/// Returns the largest sum of `size` entries of a square matrix, of which each row and each column has one. The algorithm
/// searches shortest augmenting paths with potentials (Jonker and Volgenant, 1987) on the negated matrix.
pub(super) fn heaviest(matrix: &[f64], size: usize) -> f64 {
    let cost = |row: usize, column: usize| -matrix[row * size + column];
    // Rows and columns are numbered from 1. Row 0 means that a column is unassigned; column 0 holds the row to assign next.
    let mut row_of = vec![0; size + 1];
    let (mut of_row, mut of_column) = (vec![0.0; size + 1], vec![0.0; size + 1]);
    for row in 1..=size {
        row_of[0] = row;
        let mut least = vec![f64::INFINITY; size + 1];
        let mut came_from = vec![0; size + 1];
        let mut done = vec![false; size + 1];
        let mut at = 0;
        while row_of[at] != 0 {
            done[at] = true;
            let here = row_of[at];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for column in (1..=size).filter(|column| !done[*column]) {
                let reduced = cost(here - 1, column - 1) - of_row[here] - of_column[column];
                if reduced < least[column] {
                    (least[column], came_from[column]) = (reduced, at);
                }
                if least[column] < step {
                    (step, next) = (least[column], column);
                }
            }
            for column in 0..=size {
                if done[column] {
                    of_row[row_of[column]] += step;
                    of_column[column] -= step;
                } else {
                    least[column] -= step;
                }
            }
            at = next;
        }
        while at != 0 {
            row_of[at] = row_of[came_from[at]];
            at = came_from[at];
        }
    }
    (1..=size).map(|column| matrix[(row_of[column] - 1) * size + column - 1]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the result with the best of all permutations.
    #[test]
    fn no_permutation_is_heavier() {
        let mut drawn = 1u64;
        for _ in 0..200 {
            let matrix: Vec<f64> = (0..25)
                .map(|_| {
                    drawn =
                        drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (drawn >> 60) as f64
                })
                .collect();
            assert_eq!(heaviest(&matrix, 5), best(&matrix, 0, 0));
        }
    }

    fn best(matrix: &[f64], row: usize, taken: usize) -> f64 {
        let free = (0..5).filter(|column: &usize| taken >> column & 1 == 0);
        let rest = |column: usize| matrix[row * 5 + column] + best(matrix, row + 1, taken | (1 << column));
        if row == 5 { 0.0 } else { free.map(rest).fold(f64::NEG_INFINITY, f64::max) }
    }
}
