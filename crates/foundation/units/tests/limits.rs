//! Sums and products of input values stay in bounds, and those in bounds are exact.

use proptest::prelude::*;
use unrack_units::{Bytes, Time};

proptest! {
    #[test]
    fn times_and_sizes_end_where_they_would_wrap(a: u64, b: u64) {
        let exact = u128::from(a) + u128::from(b);
        prop_assert_eq!((Time::from_ps(a) + Time::from_ps(b)).as_ps(), u64::try_from(exact).unwrap_or(u64::MAX));
        prop_assert_eq!((Bytes::new(a) + Bytes::new(b)).get(), u64::try_from(exact).unwrap_or(u64::MAX));
        let product = u128::from(a) * u128::from(b);
        prop_assert_eq!((Time::from_ps(a) * b).as_ps(), u64::try_from(product).unwrap_or(u64::MAX));
        prop_assert_eq!(Time::from_ns(a).as_ps(), a.saturating_mul(1_000));
        let mut sum = Time::from_ps(a);
        sum += Time::from_ps(b);
        prop_assert_eq!(sum, [a, b].map(Time::from_ps).into_iter().sum());
    }

    #[test]
    fn a_sum_of_two_times_before_the_end_is_exact(a in 0..1u64 << 63, b in 0..1u64 << 63) {
        let (a, b) = (Time::from_ps(a), Time::from_ps(b));
        prop_assert!(a < Time::END && b < Time::END);
        prop_assert_eq!((a + b) - b, a);
    }
}
