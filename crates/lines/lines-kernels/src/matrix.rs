//! Kernels on matrices and grids: dense and sparse products, and a stencil.

use std::hint::black_box;
use unrack_basis::SplitMix64;

/// Number of rows, and of columns, of a block of a dense matrix.
const BLOCK: usize = 32;
/// Nonzero entries per row of the sparse matrix.
const ROW_ENTRIES: usize = 16;

/// Returns the number of rows of three equal square matrices that take `bytes` bytes together, a multiple of [`BLOCK`].
fn rows(bytes: usize) -> usize {
    (((bytes / 24) as f64).sqrt() as usize / BLOCK).max(1) * BLOCK
}

/// Returns the number of multiplications that one row of the matrix product needs.
pub(crate) fn row_items(bytes: usize) -> u64 {
    (rows(bytes) * rows(bytes)) as u64
}

/// Returns the number of multiplications that one row of blocks of the matrix product needs.
pub(crate) fn blocked_items(bytes: usize) -> u64 {
    row_items(bytes) * BLOCK as u64
}

/// Returns the number of nonzero entries of a sparse matrix. A row takes 12 bytes for each of its entries and 24 bytes
/// for the rest.
pub(crate) fn sparse_items(bytes: usize) -> u64 {
    (sparse_rows(bytes) * ROW_ENTRIES) as u64
}

fn sparse_rows(bytes: usize) -> usize {
    bytes / (ROW_ENTRIES * 12 + 24)
}

/// Returns the number of points of each of the two grids of the stencil kernel, which take `bytes` bytes together.
pub(crate) fn stencil_items(bytes: usize) -> u64 {
    (side(bytes) * side(bytes)) as u64
}

fn side(bytes: usize) -> usize {
    ((bytes / 16) as f64).sqrt() as usize
}

/// Square matrix, stored by rows.
struct Matrix {
    rows: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn random(rows: usize, seed: u64) -> Matrix {
        let mut random = SplitMix64::new(seed);
        Matrix { rows, values: (0..rows * rows).map(|_| f64::from(random.next_u64() as u8)).collect() }
    }

    fn zero(rows: usize) -> Matrix {
        Matrix { rows, values: vec![0.0; rows * rows] }
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.rows..][..self.rows]
    }

    /// Adds one row of the product `a b` to this matrix. It computes each element from one row of `a` and one column of
    /// `b`.
    fn add_row(&mut self, a: &Matrix, b: &Matrix, row: usize) {
        let rows = self.rows;
        for column in 0..rows {
            let factors = b.values[column..].iter().step_by(rows);
            let sum: f64 = a.row(row).iter().zip(factors).map(|(a, b)| a * b).sum();
            self.values[row * rows + column] += sum;
        }
    }

    /// Adds one row of blocks of the product `a b` to this matrix.
    fn add_block_row(&mut self, a: &Matrix, b: &Matrix, first: usize) {
        let rows = self.rows;
        for (inner, column) in
            (0..rows).step_by(BLOCK).flat_map(|i| (0..rows).step_by(BLOCK).map(move |c| (i, c)))
        {
            for row in first..first + BLOCK {
                let target = &mut self.values[row * rows + column..][..BLOCK];
                for k in inner..inner + BLOCK {
                    let factor = a.values[row * rows + k];
                    let source = &b.values[k * rows + column..][..BLOCK];
                    target.iter_mut().zip(source).for_each(|(c, b)| *c += factor * b);
                }
            }
        }
    }

    fn checksum(&self) -> u64 {
        self.values.iter().enumerate().map(|(i, value)| (i % 7 + 1) as f64 * value).sum::<f64>().to_bits()
    }
}

/// Multiplies two matrices as in the definition of the product. Each round computes one row of the product.
pub(crate) fn naive(bytes: usize, rounds: u64) -> u64 {
    let rows = rows(bytes);
    let (a, b, mut c) = (Matrix::random(rows, 1), Matrix::random(rows, 2), Matrix::zero(rows));
    (0..rounds).for_each(|round| c.add_row(&a, &b, round as usize % rows));
    c.checksum()
}

/// Multiplies two matrices in blocks. Each round computes one row of blocks of the product.
pub(crate) fn blocked(bytes: usize, rounds: u64) -> u64 {
    let rows = rows(bytes);
    let (a, b, mut c) = (Matrix::random(rows, 1), Matrix::random(rows, 2), Matrix::zero(rows));
    (0..rounds).for_each(|round| c.add_block_row(&a, &b, round as usize * BLOCK % rows));
    c.checksum()
}

/// Multiplies a sparse matrix by a vector, repeatedly. The nonzero entries of the matrix are in random columns.
pub(crate) fn sparse(bytes: usize, rounds: u64) -> u64 {
    let rows = sparse_rows(bytes);
    let mut random = SplitMix64::new(3);
    let columns: Vec<u32> =
        (0..rows * ROW_ENTRIES).map(|_| (random.next_u64() % rows as u64) as u32).collect();
    let values: Vec<f64> = (0..rows * ROW_ENTRIES).map(|i| 1.0 / (16 + i % 3) as f64).collect();
    let (mut x, mut y) = (vec![1.0; rows], vec![0.0; rows]);
    for _ in 0..rounds {
        let entries = values.chunks(ROW_ENTRIES).zip(columns.chunks(ROW_ENTRIES));
        for (target, (values, columns)) in y.iter_mut().zip(entries) {
            *target = values.iter().zip(columns).map(|(value, column)| value * x[*column as usize]).sum();
        }
        std::mem::swap(&mut x, &mut y);
    }
    x.iter().sum::<f64>().to_bits()
}

/// Replaces each inner point of a grid by the mean of itself and its four neighbours.
pub(crate) fn stencil(bytes: usize, rounds: u64) -> u64 {
    let side = side(bytes);
    let mut random = SplitMix64::new(4);
    let mut from: Vec<f64> = (0..side * side).map(|_| f64::from(random.next_u64() as u8)).collect();
    let mut to = from.clone();
    for _ in 0..rounds {
        smooth(black_box(&from), &mut to, side);
        std::mem::swap(&mut from, &mut to);
    }
    from.iter().sum::<f64>().to_bits()
}

fn smooth(from: &[f64], to: &mut [f64], side: usize) {
    for row in 1..side - 1 {
        let [above, here, below] = [row - 1, row, row + 1].map(|row| &from[row * side..][..side]);
        let target = &mut to[row * side..][..side];
        for i in 1..side - 1 {
            target[i] = 0.2 * (here[i] + here[i - 1] + here[i + 1] + above[i] + below[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_products_are_the_product() {
        // 128 KiB: 64 rows. All values are integers below 2^53, so that the order of additions does not matter.
        let (bytes, rows) = (128 << 10, 64);
        let (a, b, mut c) = (Matrix::random(rows, 1), Matrix::random(rows, 2), Matrix::zero(rows));
        for (i, j, k) in (0..rows * rows * rows).map(|n| (n / rows / rows, n / rows % rows, n % rows)) {
            c.values[i * rows + j] += a.values[i * rows + k] * b.values[k * rows + j];
        }
        assert_eq!(super::rows(bytes), rows);
        assert_eq!(naive(bytes, 64), c.checksum());
        assert_eq!(blocked(bytes, 2), c.checksum());
    }

    #[test]
    fn a_flat_grid_stays_flat() {
        let from = vec![2.5; 64];
        let mut to = from.clone();
        smooth(&from, &mut to, 8);
        assert!(to.iter().all(|value| (value - 2.5f64).abs() < 1e-12));
    }

    #[test]
    fn a_peak_is_spread_over_its_neighbours() {
        let mut from = vec![0.0; 25];
        from[12] = 5.0;
        let mut to = from.clone();
        smooth(&from, &mut to, 5);
        let expected: Vec<f64> =
            (0..25).map(|i| if [7, 11, 12, 13, 17].contains(&i) { 1.0 } else { 0.0 }).collect();
        assert_eq!(to, expected);
    }
}
