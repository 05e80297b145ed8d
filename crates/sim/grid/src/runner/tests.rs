//! Grids of points that count their runs.

use super::*;
use std::collections::BTreeSet;
use unrack_record::Build;
use unrack_testing::TestFolder;

/// A point whose result is twice its number; it counts its runs.
struct Double<'a> {
    number: usize,
    hash: String,
    runs: &'a AtomicUsize,
    /// Numbers that cannot be run.
    broken: &'a [usize],
}

#[derive(Debug, PartialEq)]
enum Failed {
    At(usize),
    Record,
}

impl From<RecordError> for Failed {
    fn from(_error: RecordError) -> Failed {
        Failed::Record
    }
}

impl RunPoint for Double<'_> {
    type Found = usize;
    type Error = Failed;

    fn scenario_hash(&self) -> &str {
        &self.hash
    }

    fn asked(&self) -> String {
        "twice".into()
    }

    fn run(&self, _share: &mut PointProgress<'_>) -> Result<usize, Failed> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if self.broken.contains(&self.number) { Err(Failed::At(self.number)) } else { Ok(2 * self.number) }
    }
}

const POINTS: usize = 20;

fn points<'a>(runs: &'a AtomicUsize, broken: &'a [usize]) -> Vec<Double<'a>> {
    (0..POINTS).map(|number| Double { number, hash: format!("{number:016x}"), runs, broken }).collect()
}

/// Opens the points kept in a folder by a build of these sources; all builds have the same version.
fn kept(folder: &TestFolder, sources: &str) -> KeptPoints {
    let build = Build { version: "1".into(), commit: None, tree_changed: None, sources: sources.into() };
    KeptPoints::open(&**folder, &build).unwrap()
}

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

#[test]
fn results_are_in_the_order_of_the_points_on_any_number_of_threads() {
    for count in [1, 3, 50] {
        let (folder, runs) = (TestFolder::new("grid-order"), AtomicUsize::new(0));
        let found = run(&points(&runs, &[]), &kept(&folder, "a"), threads(count), &()).unwrap();
        assert_eq!(found, (0..POINTS).map(|n| 2 * n).collect::<Vec<_>>(), "{count} threads");
    }
}

#[test]
fn only_what_this_build_has_not_kept_is_run() {
    let (folder, runs) = (TestFolder::new("grid-builds"), AtomicUsize::new(0));
    let all = points(&runs, &[]);
    let ran = |some: &[Double<'_>], sources| {
        runs.store(0, Ordering::Relaxed);
        run(some, &kept(&folder, sources), threads(2), &()).unwrap();
        runs.load(Ordering::Relaxed)
    };
    assert_eq!(ran(&all[..5], "a"), 5);
    assert_eq!(ran(&all, "a"), POINTS - 5, "a larger grid runs what is new");
    assert_eq!(ran(&all, "a"), 0);
    assert_eq!(ran(&all, "b"), POINTS, "another build of the same version runs all");
}

#[test]
fn equal_points_are_run_once() {
    let (folder, runs) = (TestFolder::new("grid-equal"), AtomicUsize::new(0));
    let all = [points(&runs, &[]), points(&runs, &[])].into_iter().flatten().collect::<Vec<_>>();
    let found = run(&all, &kept(&folder, "a"), threads(1), &()).unwrap();
    assert_eq!((found.len(), runs.load(Ordering::Relaxed)), (2 * POINTS, POINTS));
}

#[test]
fn the_first_error_is_told_and_what_was_finished_is_kept() {
    let (folder, runs) = (TestFolder::new("grid-error"), AtomicUsize::new(0));
    for count in [1, 4] {
        let failed = run(&points(&runs, &[7, 9]), &kept(&folder, "a"), threads(count), &());
        assert_eq!(failed, Err(Failed::At(7)), "{count} threads");
    }
    let kept = kept(&folder, "a");
    assert!((0..7).all(|n| kept.read(&format!("{n:016x}"), "twice") == Some(2 * n)));
    assert!(runs.load(Ordering::Relaxed) < 2 * POINTS, "points ran after an error");
}

#[test]
fn watchers_see_every_point_to_its_end() {
    struct Seen(Mutex<BTreeSet<(usize, usize)>>, AtomicUsize);
    impl GridWatch for Seen {
        fn begin(&self, kept: usize, all: usize) {
            self.0.lock().unwrap().insert((kept, all));
        }
        fn advance(&self, steps: u64) {
            self.1.fetch_add(steps as usize, Ordering::Relaxed);
        }
    }
    let (folder, runs) = (TestFolder::new("grid-watch"), AtomicUsize::new(0));
    let all = points(&runs, &[]);
    run(&all[..4], &kept(&folder, "a"), threads(2), &()).unwrap();
    let seen = Seen(Mutex::default(), AtomicUsize::new(0));
    run(&all, &kept(&folder, "a"), threads(2), &seen).unwrap();
    assert_eq!(seen.0.into_inner().unwrap(), BTreeSet::from([(4, POINTS)]));
    assert_eq!(seen.1.into_inner(), (POINTS - 4) * crate::watch::STEPS as usize);
}
