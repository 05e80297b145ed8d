//! Results of several seeds: their mean, and what the next seed may give.

use crate::run::{Measured, StudyResults};

/// Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 (NIST handbook, table 1.3.6.7.2).
const STUDENTS_T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// Largest number of seeds of a run.
pub const MOST_SEEDS: u32 = STUDENTS_T.len() as u32 + 1;

/// Mean of one value over seeds, with half the width of its intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverSeeds {
    pub mean: f64,
    /// Half of the 95 % interval of the mean.
    pub of_mean: f64,
    /// Half of the 95 % interval of the value that one more seed gives.
    pub of_next: f64,
}

impl OverSeeds {
    /// Computes the intervals of a value; `None` for fewer than two seeds, which have no interval.
    ///
    /// # Panics
    /// If there are more than [`MOST_SEEDS`] values.
    pub fn new(values: &[f64]) -> Option<OverSeeds> {
        let count = values.len();
        let t = STUDENTS_T[count.checked_sub(2)?];
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1) as f64).sqrt();
        let shares = 1.0 / count as f64;
        Some(OverSeeds {
            mean,
            of_mean: t * deviation * shares.sqrt(),
            of_next: t * deviation * (1.0 + shares).sqrt(),
        })
    }
}

impl StudyResults {
    /// Returns the results of each seed alone. Points without this seed, such as those of a grid whose axis is the seed, have
    /// their only result in all of them. Returns nothing if no point was run with a second seed.
    pub fn by_seed(&self) -> Vec<StudyResults> {
        let seeds = self.points.iter().map(|point| point.seeds.len()).max().unwrap_or(0);
        if seeds == 0 {
            return Vec::new();
        }
        let alone = |seed: usize| {
            let point = |point: &Measured| Measured {
                summary: seed
                    .checked_sub(1)
                    .and_then(|other| point.seeds.get(other))
                    .unwrap_or(&point.summary)
                    .clone(),
                seeds: Vec::new(),
                ..point.clone()
            };
            StudyResults {
                study: self.study.clone(),
                points: self.points.iter().map(point).collect(),
                programs: self.programs.clone(),
            }
        };
        (0..=seeds).map(alone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with a mean of 2 and a deviation of 1.
    #[test]
    fn intervals_are_those_of_the_tables() {
        let over = OverSeeds::new(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(over.mean, 2.0);
        assert!((over.of_mean - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert!((over.of_next - 4.303 * (4.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(OverSeeds::new(&[1.0]), None);
        let same = OverSeeds::new(&[5.0; MOST_SEEDS as usize]).unwrap();
        assert_eq!((same.mean, same.of_mean, same.of_next), (5.0, 0.0, 0.0));
    }
}
