//! Kernels of the STREAM benchmark (McCalpin, "Memory bandwidth and machine balance in current high performance
//! computers", 1995).

use std::hint::black_box;

const SCALAR: f64 = 3.0;

/// Returns the number of elements of each of the three STREAM arrays, which is also the number of items per round.
pub(crate) fn items(bytes: usize) -> u64 {
    (bytes / 24) as u64
}

/// Arrays `a`, `b` and `c` of STREAM.
struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Arrays {
    fn new(bytes: usize) -> Arrays {
        let elements = items(bytes) as usize;
        Arrays { a: vec![1.0; elements], b: vec![2.0; elements], c: vec![0.5; elements] }
    }

    /// Runs `round` `rounds` times and returns a checksum of samples of the three arrays. The first elements of `a` and
    /// `c` change before each round.
    fn rounds(mut self, rounds: u64, mut round: impl FnMut(&mut Arrays)) -> u64 {
        for n in 0..rounds {
            self.a[0] = n as f64;
            self.c[0] = n as f64 + 0.25;
            round(black_box(&mut self));
        }
        let sample = |array: &[f64]| array.iter().step_by(1024).sum::<f64>();
        (sample(&self.a) + 2.0 * sample(&self.b) + 4.0 * sample(&self.c)).to_bits()
    }
}

/// Copies `a` to `c` in a loop, as in STREAM. The copy function of the standard library is not used, because it may
/// bypass the caches.
pub(crate) fn copy(bytes: usize, rounds: u64) -> u64 {
    // The compiler would convert a plain copy loop to a call of `memcpy`. The loop therefore combines each element with
    // a zero whose value the compiler does not know. The cost of this is negligible compared with the memory accesses.
    let zero = black_box(0u64);
    Arrays::new(bytes).rounds(rounds, |arrays| {
        for (c, a) in arrays.c.iter_mut().zip(&arrays.a) {
            *c = f64::from_bits(a.to_bits() | zero);
        }
    })
}

/// Writes `SCALAR * c` to `b`.
pub(crate) fn scale(bytes: usize, rounds: u64) -> u64 {
    Arrays::new(bytes).rounds(rounds, |arrays| {
        for (b, c) in arrays.b.iter_mut().zip(&arrays.c) {
            *b = SCALAR * c;
        }
    })
}

/// Writes `a + b` to `c`.
pub(crate) fn add(bytes: usize, rounds: u64) -> u64 {
    Arrays::new(bytes).rounds(rounds, |arrays| {
        for ((c, a), b) in arrays.c.iter_mut().zip(&arrays.a).zip(&arrays.b) {
            *c = a + b;
        }
    })
}

/// Writes `b + SCALAR * c` to `a`.
pub(crate) fn triad(bytes: usize, rounds: u64) -> u64 {
    Arrays::new(bytes).rounds(rounds, |arrays| {
        for ((a, b), c) in arrays.a.iter_mut().zip(&arrays.b).zip(&arrays.c) {
            *a = b + SCALAR * c;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums the elements 0, 1024, ... of an array of 4096 elements: four samples.
    fn sum(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> u64 {
        let weighted = |[first, rest]: [f64; 2]| first + 3.0 * rest;
        (weighted(a) + 2.0 * weighted(b) + 4.0 * weighted(c)).to_bits()
    }

    #[test]
    fn each_operation_is_the_one_of_its_name() {
        let bytes = 4096 * 24;
        assert_eq!(copy(bytes, 2), sum([1.0, 1.0], [2.0, 2.0], [1.0, 1.0]));
        assert_eq!(scale(bytes, 2), sum([1.0, 1.0], [3.75, 1.5], [1.25, 0.5]));
        assert_eq!(add(bytes, 2), sum([1.0, 1.0], [2.0, 2.0], [3.0, 3.0]));
        assert_eq!(triad(bytes, 2), sum([5.75, 3.5], [2.0, 2.0], [1.25, 0.5]));
    }
}
