//! Collaborative filtering by alternating least squares (Zhou, Wilkinson, Schreiber and Pan, AAIM 2008). DDC (table 2) runs GraphLab's
//! implementation on Netflix's ratings.
//!
//! The model approximates a rating by the scalar product of the factors of its user and of its item. While the factors of all items are
//! fixed, the factors of a user are the solution of a small linear system over the user's ratings. Then the roles of users and items are
//! exchanged. Each iteration reads the ratings twice, in order.

use unrack_basis::SplitMix64;

/// Number of factors of each user and each item.
const FACTORS: usize = 16;
/// Regularization: weight of the squared factors, per rating.
const RIDGE: f64 = 0.05;
/// Mean number of ratings per user, and number of users per item. Both are close to Netflix's (100 million ratings, 480,000 users, 17,770
/// items).
const RATINGS_PER_USER: usize = 208;
const USERS_PER_ITEM: usize = 27;
/// Bytes of a rating, which is stored twice: by its user and by its item.
const RATING_BYTES: usize = 2 * size_of::<(u32, f32)>();

/// Options of `unrack-programs ratings`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Size of the ratings, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    size: u32,
    /// Iterations
    #[arg(long, value_name = "N", default_value_t = 2)]
    iterations: u32,
}

type Factors = [f64; FACTORS];

/// Ratings grouped by one side (users or items). The ratings of member `n` are between `starts[n]` and `starts[n + 1]`; each contains the
/// member of the other side.
struct RatingSide {
    starts: Vec<usize>,
    ratings: Vec<(u32, f32)>,
}

/// Fits the factors, and returns a line with the remaining error.
pub(crate) fn run(args: &Args) -> String {
    let count = ((args.size as usize) << 20) / RATING_BYTES;
    let users = draw(count);
    let items = users.turned(item_count(count));
    let errors = fit(&users, &items, args.iterations);
    let last = errors.last().copied().unwrap_or_default();
    format!("{count} ratings of {} users and {} items: error {last:.6}", users.len(), items.len())
}

fn user_count(ratings: usize) -> usize {
    (ratings / RATINGS_PER_USER).max(1)
}

fn item_count(ratings: usize) -> usize {
    (user_count(ratings) / USERS_PER_ITEM).max(1)
}

/// Draws ratings from 1 to 5, determined by two hidden factors and by chance. Items with low numbers are rated more often.
fn draw(count: usize) -> RatingSide {
    let (users, items) = (user_count(count), item_count(count));
    let mut random = SplitMix64::new(6);
    let mut ratings = Vec::with_capacity(count);
    let mut starts = vec![0];
    for user in 0..users {
        let end = (user + 1) * count / users;
        for _ in ratings.len()..end {
            let item = unit(&mut random).powi(2) * items as f64;
            let item = (item as usize).min(items - 1);
            let (a, b) = (hidden(user, item, 1), hidden(user, item, 2));
            let rating = 3.0 + a + b + (unit(&mut random) - 0.5);
            ratings.push((item as u32, rating.clamp(1.0, 5.0) as f32));
        }
        starts.push(end);
    }
    RatingSide { starts, ratings }
}

/// Draws a number from 0 to 1.
fn unit(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns the product of a user's and an item's value of a hidden factor, between -1 and 1.
fn hidden(user: usize, item: usize, factor: u64) -> f64 {
    let of = |member: usize, side: u64| {
        2.0 * unit(&mut SplitMix64::new((member as u64) << 8 | factor << 1 | side)) - 1.0
    };
    of(user, 0) * of(item, 1)
}

impl RatingSide {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn of(&self, member: usize) -> &[(u32, f32)] {
        &self.ratings[self.starts[member]..self.starts[member + 1]]
    }

    /// Returns the same ratings grouped by the other side, which has `members` members.
    fn turned(&self, members: usize) -> RatingSide {
        let mut starts = vec![0; members + 1];
        self.ratings.iter().for_each(|(member, _)| starts[*member as usize + 1] += 1);
        for member in 0..members {
            starts[member + 1] += starts[member];
        }
        let (mut next, mut ratings) = (starts.clone(), vec![(0, 0.0); self.ratings.len()]);
        for member in 0..self.len() {
            for (other, rating) in self.of(member) {
                ratings[next[*other as usize]] = (member as u32, *rating);
                next[*other as usize] += 1;
            }
        }
        RatingSide { starts, ratings }
    }
}

/// Fits the factors of both sides, and returns the root mean square error after each iteration.
fn fit(users: &RatingSide, items: &RatingSide, iterations: u32) -> Vec<f64> {
    let mut random = SplitMix64::new(8);
    let mut of_items: Vec<Factors> =
        (0..items.len()).map(|_| std::array::from_fn(|_| unit(&mut random))).collect();
    let mut of_users = vec![[0.0; FACTORS]; users.len()];
    let mut errors = Vec::new();
    for _ in 0..iterations {
        solve_side(users, &of_items, &mut of_users);
        solve_side(items, &of_users, &mut of_items);
        errors.push(error(items, &of_users, &of_items));
    }
    errors
}

/// Sets the factors of one side to their optimum, given the fixed factors of the other side.
fn solve_side(side: &RatingSide, held: &[Factors], factors: &mut [Factors]) {
    for (member, factors) in factors.iter_mut().enumerate() {
        let ratings = side.of(member);
        let mut matrix = [[0.0; FACTORS]; FACTORS];
        let mut right = [0.0; FACTORS];
        for (other, rating) in ratings {
            let held = &held[*other as usize];
            for (row, a) in held.iter().enumerate() {
                matrix[row].iter_mut().zip(held).for_each(|(sum, b)| *sum += a * b);
                right[row] += a * f64::from(*rating);
            }
        }
        for (row, line) in matrix.iter_mut().enumerate() {
            line[row] += RIDGE * ratings.len().max(1) as f64;
        }
        *factors = solved(matrix, right);
    }
}

/// Solves a symmetric, positive definite system by Cholesky decomposition.
fn solved(mut matrix: [Factors; FACTORS], mut right: Factors) -> Factors {
    for row in 0..FACTORS {
        for column in 0..=row {
            let sum: f64 = (0..column).map(|n| matrix[row][n] * matrix[column][n]).sum();
            let left = matrix[row][column] - sum;
            matrix[row][column] = if row == column { left.sqrt() } else { left / matrix[column][column] };
        }
        let sum: f64 = (0..row).map(|n| matrix[row][n] * right[n]).sum();
        right[row] = (right[row] - sum) / matrix[row][row];
    }
    for row in (0..FACTORS).rev() {
        let sum: f64 = (row + 1..FACTORS).map(|n| matrix[n][row] * right[n]).sum();
        right[row] = (right[row] - sum) / matrix[row][row];
    }
    right
}

/// Returns the root mean square difference between the ratings and the products of the factors.
fn error(items: &RatingSide, of_users: &[Factors], of_items: &[Factors]) -> f64 {
    let mut sum = 0.0;
    for (item, own) in of_items.iter().enumerate() {
        for (user, rating) in items.of(item) {
            let product: f64 = own.iter().zip(&of_users[*user as usize]).map(|(a, b)| a * b).sum();
            sum += (f64::from(*rating) - product).powi(2);
        }
    }
    (sum / items.ratings.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_solved() {
        let mut random = SplitMix64::new(2);
        let root: [Factors; FACTORS] = std::array::from_fn(|_| std::array::from_fn(|_| unit(&mut random)));
        let matrix: [Factors; FACTORS] = std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                let product: f64 = (0..FACTORS).map(|n| root[row][n] * root[column][n]).sum();
                product + if row == column { 0.1 } else { 0.0 }
            })
        });
        let expected: Factors = std::array::from_fn(|n| n as f64 - 5.0);
        let right = std::array::from_fn(|row| (0..FACTORS).map(|n| matrix[row][n] * expected[n]).sum());
        let found = solved(matrix, right);
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-8), "{found:?}");
    }

    #[test]
    fn both_sides_have_the_same_ratings() {
        let users = draw(40_000);
        let items = users.turned(item_count(40_000));
        let sorted = |side: &RatingSide, turn: bool| {
            let all = (0..side.len()).flat_map(|n| {
                side.of(n).iter().map(move |(other, rating)| match turn {
                    true => (*other, n as u32, rating.to_bits()),
                    false => (n as u32, *other, rating.to_bits()),
                })
            });
            let mut all: Vec<_> = all.collect();
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(&users, false), sorted(&items, true));
        assert_eq!((users.ratings.len(), users.len()), (40_000, 192));
    }

    /// The random part of the ratings alone has a standard deviation of 0.29, the square root of 1/12.
    #[test]
    fn factors_explain_what_is_not_chance() {
        let users = draw(400_000);
        let errors = fit(&users, &users.turned(item_count(400_000)), 4);
        assert!(errors.last().unwrap() < &0.36, "{errors:?}");
        let mean = users.ratings.iter().map(|(_, rating)| f64::from(*rating)).sum::<f64>() / 400_000.0;
        let spread = users.ratings.iter().map(|(_, rating)| (f64::from(*rating) - mean).powi(2)).sum::<f64>();
        assert!((spread / 400_000.0).sqrt() > 0.5, "there is something to explain");
    }
}
