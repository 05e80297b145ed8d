//! Studies in their quick form: they run, repeat to the byte, and are resumed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use unrack_study::page::{Done, charts, markdown};
use unrack_study::run::run;
use unrack_study::{Compared, Results, Scale, Study, Verdict, all, computed, figure};

/// A folder of its own, removed at the end.
struct Desk(PathBuf);

impl Desk {
    fn new(name: &str) -> Desk {
        let folder = std::env::temp_dir().join(format!("unrack-study-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Desk(folder)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn study(name: &str) -> Study {
    all().unwrap().into_iter().find(|study| study.name == name).unwrap()
}

fn quick(studies: &[Study], keep: &Path) -> Vec<Results> {
    run(studies, Scale::Quick, keep, |_, _| ()).unwrap()
}

#[test]
fn every_study_runs_and_keeps_what_must_be_kept() {
    let desk = Desk::new("all");
    let studies = all().unwrap();
    let results = quick(&studies, &desk.0);
    for (study, results) in studies.iter().zip(&results) {
        let figures = figure::compare(study, results, &computed::of(&study.name, Scale::Quick));
        let failed: Vec<&Compared> = figures.iter().filter(|compared| figure::fails(compared)).collect();
        assert!(failed.is_empty(), "{}: {failed:?}", study.name);
        assert!(figures.iter().any(|figure| figure.verdict != Verdict::NotMeasured), "{}", study.name);
        for point in &results.points {
            let count = |key: &str| point.summary[key].as_u64().unwrap();
            assert!(count("completed") * 100 >= count("messages") * 99, "{}: {:?}", study.name, point.labels);
            assert!(
                point.value("slowdown.mean").unwrap() >= 1.0 - 1e-9,
                "{}: {:?}",
                study.name,
                point.labels
            );
        }
        assert_eq!(charts(study, results).len(), study.charts.len());
        let page = markdown(&[Done { study, results, figures: &figures }]);
        let all_finished = results.points.iter().all(|point| point.summary["unfinished"].is_null());
        let says = page.contains("did not finish") || page.contains("Cut off after");
        assert_eq!(says, !all_finished, "{page}");
        let names = figures.iter().all(|figure| page.contains(&figure.what));
        assert!(names && page.contains(&format!("## {}", study.name)), "{page}");
    }
}

#[test]
fn results_are_the_same_on_any_number_of_cores_and_when_resumed() {
    let (one, two) = (Desk::new("one"), Desk::new("two"));
    let studies = [study("ddc/table4")];
    let on = |threads, desk: &Desk| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| quick(&studies, &desk.0))
    };
    let first = on(1, &one);
    assert_eq!(first, on(4, &two));
    // Half of the points are lost: only those run again.
    let kept: Vec<PathBuf> = std::fs::read_dir(&one.0).unwrap().map(|file| file.unwrap().path()).collect();
    let before = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    let times: Vec<_> = kept.iter().map(before).collect();
    let lost = kept.len() / 2;
    kept[..lost].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let told = AtomicUsize::new(0);
    let progress = |_, all| {
        told.store(all, Ordering::Relaxed);
    };
    let again = run(&studies, Scale::Quick, &one.0, progress).unwrap();
    assert_eq!(again, first);
    assert_eq!(told.into_inner(), kept.len());
    assert!(kept[lost..].iter().map(before).eq(times[lost..].iter().copied()));
    assert!(kept.iter().all(|path| path.is_file()));
}

#[test]
fn a_point_of_another_program_or_a_broken_one_is_run_again() {
    let desk = Desk::new("stale");
    let studies = [study("ddc/table4")];
    let first = quick(&studies, &desk.0);
    for (n, file) in std::fs::read_dir(&desk.0).unwrap().enumerate() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut kept: serde_json::Value = serde_json::from_str(&text).unwrap();
        kept["summary"]["slowdown"]["mean"] = 99.0.into();
        kept["program"] = "another".into();
        let half = text[..text.len() / 2].to_string();
        std::fs::write(&path, if n % 2 == 0 { kept.to_string() } else { half }).unwrap();
    }
    assert_eq!(quick(&studies, &desk.0), first);
}

#[test]
fn a_study_that_leads_nowhere_is_refused_with_its_name() {
    let good = include_str!("../../../studies/ddc/table4.toml");
    let said = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let study = Study::parse("mine", &good.replacen(from, to, 1));
        let run = |study: Study| run(&[study], Scale::Quick, &Desk::new("bad").0, |_, _| ()).map(|_| ());
        study.and_then(run).unwrap_err().to_string()
    };
    let grid = said("grid = \"page\"\nwhere", "grid = \"pages\"\nwhere");
    assert!(grid.contains("studies/mine.toml") && grid.contains("no grid `pages`"), "{grid}");
    let value = said("way = \"inter-rack\" }\nvalue", "way = \"inter\" }\nvalue");
    assert!(value.contains("has no value `inter`"), "{value}");
    assert!(said("kind = \"exact\"", "kind = \"exactly\"").contains("exactly"));
    let fabric = said("fabrics = [\"tcp\"", "fabrics = [\"tpc\"");
    assert!(fabric.contains("fabric tpc") && fabric.contains("did you mean `tcp`"), "{fabric}");
    assert!(said("size = \"4KiB\"", "size = \"4\"").contains("mine:11:"), "line of the scenario");
}
