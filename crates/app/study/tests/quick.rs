//! Studies in their quick form: they run, repeat to the byte, and are resumed.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use unrack_grid::runner::cores;
use unrack_record::{Build, KeptPoints};
use unrack_study::breaks::check;
use unrack_study::charts::charts;
use unrack_study::page::{StudyOutcome, markdown};
use unrack_study::run::{run, run_seeds};
use unrack_study::{Compared, Study, StudyResults, StudyScale, Verdict, all, computed, figure};
use unrack_testing::TestFolder;

fn study(name: &str) -> Study {
    all().unwrap().into_iter().find(|study| study.name == name).unwrap()
}

/// Opens the points kept in a folder by a build of these sources.
fn points_of(folder: &Path, sources: &str) -> KeptPoints {
    let (version, sources) = (String::new(), sources.into());
    KeptPoints::open(folder, &Build { version, commit: None, tree_changed: None, sources }).unwrap()
}

fn quick(studies: &[Study], keep: &Path) -> Vec<StudyResults> {
    run(studies, StudyScale::Quick, &points_of(keep, "this"), cores(), &()).unwrap()
}

/// Misspells the name of each figure's value: the value is not measured then, and the run fails.
fn misspelt_values_are_not_measured(study: &Study, results: &StudyResults, computed: &computed::Computed) {
    let right = figure::compare(study, results, computed, StudyScale::Quick);
    for (n, right) in right.iter().enumerate().filter(|(_, right)| right.verdict != Verdict::LeftOut) {
        let mut wrong = study.clone();
        match &mut wrong.figures[n].computed {
            Some(name) => name.push('x'),
            None => wrong.figures[n].select.value.push('x'),
        }
        let wrong = &figure::compare(&wrong, results, computed, StudyScale::Quick)[n];
        assert!(
            figure::fails(wrong, StudyScale::Quick),
            "{}: {}: {:?}",
            study.name,
            right.what,
            wrong.verdict
        );
    }
}

/// Misspelt grids, axes, labels and fabrics, in every study: the file is refused, with the line and the name that was
/// meant.
#[test]
fn misspelt_names_are_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let mut tried = 0;
    for study in all().unwrap() {
        let text = std::fs::read_to_string(folder.join(format!("{}.toml", study.name))).unwrap();
        for (n, line) in text.lines().enumerate().filter(|(_, line)| names_something(line)) {
            let mut from = line.find('=').unwrap();
            while let Some(found) = line[from..].find('"') {
                let start = from + found + 1;
                let end = start + line[start..].find('"').unwrap();
                from = end + 1;
                let slip = format!("{}zz{}", &line[..end], &line[end..]);
                let lines = text.lines().enumerate();
                let wrong: Vec<&str> =
                    lines.map(|(at, line)| if at == n { slip.as_str() } else { line }).collect();
                let said =
                    Study::parse(&study.name, &wrong.join("\n")).map(drop).expect_err(&slip).to_string();
                let meant = format!("did you mean `{}`?", &line[start..end]);
                assert!(
                    said.contains("toml: line ") && said.contains("has no") || said.contains("there is no"),
                    "{said}"
                );
                assert!(
                    end - start < 4 || line[start..end].contains('=') || said.contains(&meant),
                    "{slip}: {said}"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

/// Returns whether a line of a figure selects points: its grid, its labels, its columns, and the fabrics of an order.
fn names_something(line: &str) -> bool {
    let starts = ["grid = ", "where = ", "over = ", "columns = ", "published = [\"", "x = "];
    starts.iter().any(|start| line.starts_with(start))
}

#[test]
fn every_study_runs_and_keeps_what_must_be_kept() {
    let desk = TestFolder::new("all");
    // Those with programs need root, and another command.
    let studies: Vec<_> = all().unwrap().into_iter().filter(|study| study.programs.is_empty()).collect();
    let results = quick(&studies, &desk);
    for (study, results) in studies.iter().zip(&results) {
        let computed = computed::figures(&study.name, StudyScale::Quick);
        let figures = figure::compare(study, results, &computed, StudyScale::Quick);
        misspelt_values_are_not_measured(study, results, &computed);
        let fails = |compared: &&Compared| figure::fails(compared, StudyScale::Quick);
        let failed: Vec<&Compared> = figures.iter().filter(fails).collect();
        assert!(failed.is_empty(), "{}: {failed:?}", study.name);
        assert!(figures.iter().any(|figure| figure.verdict != Verdict::LeftOut), "{}", study.name);
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
        assert_eq!(
            charts(study, results).len(),
            study.charts.len() + study.maps.len() + study.timelines.len()
        );
        let page =
            markdown(&[], &[StudyOutcome { study, results, figures: &figures, costs: None }], "a machine");
        let all_finished = results.points.iter().all(|point| point.summary["unfinished"].is_null());
        let says = page.contains("did not finish") || page.contains("Cut off after");
        assert_eq!(says, !all_finished, "{page}");
        let names = figures.iter().all(|figure| page.contains(&figure.what));
        assert!(names && page.contains(&format!("## {}", study.name)), "{page}");
    }
}

/// One study of each kind notices if its mechanism is broken. `make studies-check` checks all studies.
#[test]
fn studies_notice_a_broken_mechanism() {
    let desk = TestFolder::new("breaks");
    let (simulated, computed) = ("r2c2/fig17", "edm/failures");
    let studies = [study(simulated), study(computed)];
    let checked = check(&studies, StudyScale::Quick, &points_of(&desk, "this"), cores(), &()).unwrap();
    let blind: Vec<_> = checked.iter().filter(|study| !study.notices()).collect();
    assert!(checked.len() == studies.len() && blind.is_empty(), "{blind:?}");
}

/// A break that changes nothing is noticed by no row.
#[test]
fn a_break_that_breaks_nothing_is_not_noticed() {
    let desk = TestFolder::new("no-break");
    let mut study = study("ddc/table4");
    study.breaks.truncate(1);
    study.breaks[0].set = vec!["seed=1".into()];
    let checked = check(&[study], StudyScale::Quick, &points_of(&desk, "this"), cores(), &()).unwrap();
    assert!(!checked[0].notices() && checked[0].breaks[0].rows > 0, "{checked:?}");
}

/// Other seeds are other runs, and the first is that of the scenario.
#[test]
fn seeds_are_run_beside_the_first() {
    let desk = TestFolder::new("seeds");
    let mut study = study("r2c2/fig17");
    study.grids[0].quick.set = vec!["workload.messages=50".into(), "workload.warm_up=5".into()];
    let kept = points_of(&desk, "this");
    let one = run(&[study.clone()], StudyScale::Quick, &kept, cores(), &()).unwrap();
    let three = run_seeds(&[study], (StudyScale::Quick, 3), &kept, cores(), &()).unwrap();
    let by_seed = three[0].by_seed();
    assert_eq!((by_seed.len(), &by_seed[0].points), (3, &one[0].points));
    assert!(by_seed[0] != by_seed[1] && by_seed[1] != by_seed[2]);
}

#[test]
fn results_are_the_same_on_any_number_of_cores_and_when_resumed() {
    let (one, two) = (TestFolder::new("one"), TestFolder::new("two"));
    let studies = [study("ddc/table4")];
    let on = |threads, desk: &TestFolder| {
        run(&studies, StudyScale::Quick, &points_of(desk, "this"), NonZeroUsize::new(threads).unwrap(), &())
            .unwrap()
    };
    let first = on(1, &one);
    assert_eq!(first, on(4, &two));
    // Half of the points are lost: only those run again.
    let kept: Vec<PathBuf> = std::fs::read_dir(&one).unwrap().map(|file| file.unwrap().path()).collect();
    let before = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    let times: Vec<_> = kept.iter().map(before).collect();
    let lost = kept.len() / 2;
    kept[..lost].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(quick(&studies, &one), first);
    assert!(kept[lost..].iter().map(before).eq(times[lost..].iter().copied()));
    assert!(kept.iter().all(|path| path.is_file()));
}

#[test]
fn a_point_of_another_build_or_a_broken_one_is_run_again() {
    let desk = TestFolder::new("stale");
    let studies = [study("ddc/table4")];
    let first = quick(&studies, &desk);
    let files = || std::fs::read_dir(&desk).unwrap().map(|file| file.unwrap().path());
    // Points kept by the same build are trusted.
    for path in files() {
        let mut point: serde_json::Value = unrack_record::read_json(&path).unwrap();
        point["result"]["slowdown"]["mean"] = 99.0.into();
        unrack_record::write_json(&path, &point).unwrap();
    }
    assert_ne!(quick(&studies, &desk), first);
    assert_eq!(run(&studies, StudyScale::Quick, &points_of(&desk, "changed"), cores(), &()).unwrap(), first);
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    }
    assert_eq!(quick(&studies, &desk), first);
}

#[test]
fn a_study_that_leads_nowhere_is_refused_with_its_name() {
    let good = include_str!("../../../../studies/ddc/table4.toml");
    let said = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let study = Study::parse("mine", &good.replacen(from, to, 1));
        let desk = TestFolder::new("bad");
        let run = |study: Study| {
            run(&[study], StudyScale::Quick, &points_of(&desk, "this"), cores(), &()).map(|_| ())
        };
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
