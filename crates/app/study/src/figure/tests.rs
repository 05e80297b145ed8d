//! Verdicts on figures of each kind.

use super::*;

fn results() -> StudyResults {
    let point = |fabric: &str, load: &str, mean: f64| Measured {
        grid: "loads".into(),
        labels: BTreeMap::from([("fabric".into(), fabric.into()), ("load".into(), load.into())]),
        scenario_hash: String::new(),
        summary: serde_json::json!({ "slowdown": { "mean": mean } }),
        seeds: Vec::new(),
    };
    let points = vec![
        point("edm", "10%", 1.01),
        point("edm", "90%", 1.26),
        point("cxl", "10%", 1.1),
        point("cxl", "90%", 5.04),
    ];
    StudyResults { study: "test".into(), points, programs: Vec::new() }
}

fn study(text: &str) -> Study {
    toml::from_str(&format!("title = \"\"\nsource = \"\"\nabout = \"\"\n{text}")).unwrap()
}

fn figure_of(study: &Study, text: &str) -> Compared {
    let common = "what = \"\"\nsource = \"\"\nselect.grid = \"loads\"\nselect.value = \"slowdown.mean\"\n";
    let figure: Figure = toml::from_str(&format!("{common}{text}")).unwrap();
    let computed = Computed::from([("nine".into(), 9.0), ("ten".into(), 10.0)]);
    compared(study, &figure, (&results(), &[]), &computed)
}

fn figure(text: &str) -> Compared {
    figure_of(&study(""), text)
}

fn verdict(text: &str) -> (Verdict, String) {
    let compared = figure(text);
    (compared.verdict, compared.sentence)
}

#[test]
fn a_bound_is_kept_or_not() {
    let of = |published: f64| {
        let bound = "kind = \"bound\"\nrelation = \"at-most\"\nselect.take = \"max\"";
        verdict(&format!("{bound}\nselect.where.fabric = \"edm\"\npublished = {published:?}"))
    };
    assert_eq!(of(1.3), (Verdict::Met, "Within the bound.".into()));
    assert_eq!(of(1.2), (Verdict::Missed, "5.00 % above the bound.".into()));
}

#[test]
fn an_exact_figure_is_met_to_its_digits() {
    let of = |published: f64, digits| {
        let exact = "kind = \"exact\"\ncomputed = \"nine\"";
        verdict(&format!("{exact}\npublished = {published:?}\ndigits = {digits}")).0
    };
    assert_eq!(of(9.0, 1), Verdict::Met);
    assert_eq!(of(9.04, 1), Verdict::Met);
    assert_eq!(of(9.04, 2), Verdict::Missed);
    let unknown = "kind = \"exact\"\ncomputed = \"eleven\"\npublished = 1.0";
    assert_eq!(verdict(unknown).0, Verdict::NotMeasured);
}

/// A shape can also have the verdict "the same", if the number of its published digits is given.
#[test]
fn a_shape_is_the_same_to_the_digits_published() {
    let of = |published: f64, digits: &str| {
        let shape = "kind = \"shape\"\nselect.where.fabric = \"edm\"\nselect.where.load = \"90%\"";
        verdict(&format!("{shape}\nselect.scale = 100.0\npublished = {published:?}\n{digits}"))
    };
    let narrow = |digits: &str| format!("{digits}\ntolerance = 0.001\nbecause = \"a test\"");
    assert_eq!(of(126.4, &narrow("digits = 0")), (Verdict::Met, "The same.".into()));
    assert_eq!(of(126.4, &narrow("digits = 1")), (Verdict::Missed, "Ours is the same within 0.5 %.".into()));
    assert_eq!(of(130.0, &narrow("digits = -1")).0, Verdict::Met);
    assert_eq!(of(120.0, &narrow("digits = -1")).0, Verdict::Missed);
    assert_eq!(of(126.2, &narrow("")).0, Verdict::Missed);
}

#[test]
fn values_are_set_over_those_of_another_fabric() {
    let over = "kind = \"shape\"\nselect.where.fabric = \"cxl\"\nselect.over.fabric = \"edm\"\n\
                select.take = \"max\"\npublished = 8.0";
    let compared = figure(over);
    assert_eq!((compared.ours.as_str(), compared.verdict), ("4.00", Verdict::Missed));
    assert_eq!(compared.sentence, "Ours is 50.0 % lower.");
}

#[test]
fn orders_ranges_and_tables() {
    let order = "kind = \"shape\"\nselect.where.load = \"90%\"\npublished = [\"edm\", \"cxl\"]";
    assert_eq!(verdict(order), (Verdict::Met, "The same order.".into()));
    let order = "kind = \"shape\"\nselect.where.load = \"90%\"\npublished = [\"cxl\", \"edm\"]";
    assert_eq!(verdict(order).1, "Another order: edm (1.26) is below cxl (5.04).");
    let equal = |load: &str, more: &str| {
        let order = format!("select.where.load = \"{load}\"\npublished = [\"cxl = edm\"]\n{more}");
        verdict(&format!("kind = \"shape\"\n{order}"))
    };
    assert_eq!(equal("10%", ""), (Verdict::Met, "The same order.".into()));
    assert_eq!(equal("90%", ""), (Verdict::Missed, "Not the same: cxl is 300 % above edm.".into()));
    assert_eq!(equal("90%", "tolerance = 3.1\nbecause = \"a test\"").0, Verdict::Met);
    assert_eq!(equal("10%", "tolerance = 0.05\nbecause = \"a test\"").0, Verdict::Missed);
    let unknown = "kind = \"shape\"\nselect.where.load = \"90%\"\npublished = [\"edm\", \"not-run\"]";
    assert_eq!(verdict(unknown).0, Verdict::NotMeasured);
    let range =
        "kind = \"shape\"\nselect.where.fabric = \"edm\"\nselect.take = \"range\"\npublished = [1.05, 1.2]";
    assert_eq!(verdict(range).1, "Ours begins 3.81 % lower, ours ends 5.00 % higher.");
    let rows = "kind = \"shape\"\nselect.columns = \"load\"\n[published]\nedm = [1.0, 1.2]";
    let compared = figure(rows);
    assert_eq!(
        compared.sentence,
        "Ours over published: edm 1.01 to 1.05 times. 2 of 2 cells are within the tolerance."
    );
    let far = "kind = \"shape\"\nselect.columns = \"load\"\n[published]\nedm = [1.0, 2.0]";
    assert_eq!(verdict(far).0, Verdict::Missed);
    let table = compared.table.unwrap();
    assert_eq!(
        (table.columns, &table.rows[0].ours),
        (vec!["10%".into(), "90%".into()], &vec![Some(1.01), Some(1.26)])
    );
}

/// The tolerance of a figure is its own, or that of the study, or 10 %.
#[test]
fn a_shape_is_met_within_its_tolerance() {
    let shape = |more: &str| format!("kind = \"shape\"\ncomputed = \"nine\"\npublished = 9.5\n{more}");
    assert_eq!(verdict(&shape("")), (Verdict::Met, "Ours is 5.26 % lower.".into()));
    let of_study = study("tolerance = { share = 0.02, because = \"it is counted\" }");
    let narrow = figure_of(&of_study, &shape(""));
    assert_eq!(narrow.verdict, Verdict::Missed);
    assert_eq!(narrow.rule, "Tolerance 2 %: it is counted.");
    let own = figure_of(&of_study, &shape("tolerance = 0.06\nbecause = \"a plot\""));
    assert_eq!((own.verdict, own.rule.as_str()), (Verdict::Met, "Tolerance 6 %: a plot."));
}

#[test]
fn a_row_that_cannot_fail_is_not_counted_but_can_still_be_missed() {
    let row = |published: f64| {
        figure(&format!(
            "kind = \"exact\"\ncomputed = \"nine\"\npublished = {published:?}\ncannot_fail = \"a sum\""
        ))
    };
    assert_eq!(row(9.0).verdict, Verdict::CannotFail);
    assert_eq!(row(9.0).rule, "This row cannot fail, and is not counted: a sum.");
    assert_eq!(row(8.0).verdict, Verdict::Missed);
    assert!(fails(&row(8.0), StudyScale::Quick));
}

/// A cause counts only if the run without it removes half of the difference.
#[test]
fn a_cause_is_what_a_run_shows() {
    let of = |published: f64, load: &str| {
        let cause = format!("[cause]\nsays = \"The load.\"\nwhere = {{ load = \"{load}\" }}");
        let labels = "select.where = { fabric = \"cxl\", load = \"90%\" }";
        figure(&format!("kind = \"shape\"\npublished = {published:?}\n{labels}\n{cause}"))
    };
    let right = of(1.1, "10%");
    assert_eq!(right.verdict, Verdict::Explained);
    assert!(right.sentence.contains("The load. A run without it gives"), "{}", right.sentence);
    assert!(!fails(&right, StudyScale::Full));
    let wrong = of(1.1, "90%");
    assert_eq!(wrong.verdict, Verdict::Missed);
    assert!(wrong.sentence.contains("this is not the cause"), "{}", wrong.sentence);
    assert!(fails(&wrong, StudyScale::Full) && !fails(&wrong, StudyScale::Quick));
    // From 5.04 to 1.1 where 2.4 is published: the differences are factors of 2.1 and 2.18.
    assert_eq!(of(2.4, "10%").verdict, Verdict::Missed);
    assert_eq!(of(5.0, "10%").cause, None, "nothing is to be explained");
    let computed = "kind = \"exact\"\ncomputed = \"nine\"\npublished = 10.0\ncause = { says = \"One.\", computed = \"ten\" }";
    assert_eq!(figure(computed).verdict, Verdict::Explained);
}

/// Values are means over seeds, and the interval is that of the mean.
#[test]
fn figures_of_several_seeds_have_intervals() {
    let mut results = results();
    for point in &mut results.points {
        let more = |by: f64| serde_json::json!({ "slowdown": { "mean": point.value("slowdown.mean").unwrap() + by } });
        point.seeds = vec![more(0.1), more(-0.1)];
    }
    let figure: Figure = toml::from_str(
        "what = \"\"\nsource = \"\"\nkind = \"shape\"\npublished = 5.0\nselect.grid = \"loads\"\n\
         select.value = \"slowdown.mean\"\nselect.where = { fabric = \"cxl\", load = \"90%\" }",
    )
    .unwrap();
    let compared = compared(&study(""), &figure, (&results, &results.by_seed()), &Computed::new());
    let half = 4.303 * 0.1 / 3f64.sqrt();
    assert!((compared.values.plus_minus[0] - half).abs() < 1e-9, "{:?}", compared.values);
    assert!((compared.values.ours[0] - 5.04).abs() < 1e-9 && compared.values.first_seed == [5.04]);
    assert_eq!(compared.ours, format!("5.04 ({} to {})", number(5.04 - half), number(5.04 + half)));
}

/// Slowdowns of `cxl` are 1.1 at a load of 10 % and 5.04 at 90 %. Halfway between them, the logarithm of the load is halfway, too:
/// at a load of 30 %.
#[test]
fn a_crossing_is_the_place_of_a_value_on_the_axis() {
    let of = |fabric: &str, value: f64| {
        let crossing = format!("select.crossing = {{ axis = \"load\", value = {value:?} }}");
        figure(&format!("kind = \"context\"\nselect.where.fabric = \"{fabric}\"\n{crossing}"))
    };
    let halfway = of("cxl", (1.1 + 5.04) / 2.0);
    assert!((halfway.values.ours[0] - 30.0).abs() < 1e-9, "{halfway:?}");
    assert!((of("cxl", 5.04).values.ours[0] - 90.0).abs() < 1e-9);
    let nowhere = of("edm", 1.3);
    assert_eq!((nowhere.verdict, nowhere.values.ours), (Verdict::NotMeasured, Vec::new()));
}
