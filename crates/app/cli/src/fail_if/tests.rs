//! Expressions that hold, that do not hold, and that are refused.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use unrack_record::{Comparison, Machine};
use unrack_sim::Summary;

fn result() -> Value {
    json!({
        "slowdown": { "mean": 1.5, "p99": 4.713, "max": null }, "messages": 100, "completed": 99, "fabric": "edm",
        "completion_ns": { "p99": 4_999.0 }, "throughput_gbps": 80.0, "queue_bytes": { "max": 65_536 },
        "packet_hops_per_s": 10.0, "native": { "median_s": 0.5 },
        "fabrics": [{ "fabric": "edm", "slowdown": 1.02 }, { "fabric": "pfc-dcqcn", "slowdown": 1.4 }],
    })
}

fn holds(text: &str) -> Option<String> {
    let parsed: FailIf = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
    parsed.holds(&result())
}

#[test]
fn what_holds_is_said_with_its_value() {
    for (text, values) in [
        ("slowdown.p99>3", "slowdown.p99 is 4.713"),
        (" slowdown.p99 >= 4.713 ", "slowdown.p99 is 4.713"),
        ("3 < slowdown.p99", "slowdown.p99 is 4.713"),
        ("completed<messages", "completed is 99, messages is 100"),
        (
            "completed != messages and slowdown.mean == 1.5",
            "completed is 99, messages is 100, slowdown.mean is 1.5",
        ),
        ("slowdown.mean>9 or slowdown.p99>3", "slowdown.p99 is 4.713"),
        ("slowdown.mean>1 and (slowdown.p99>9 or messages<=100)", "slowdown.mean is 1.5, messages is 100"),
        ("fabrics.pfc-dcqcn.slowdown > 105%", "fabrics.pfc-dcqcn.slowdown is 1.4"),
        ("fabrics.1.slowdown>1.05", "fabrics.1.slowdown is 1.4"),
    ] {
        assert_eq!(holds(text).as_deref(), Some(values), "{text}");
    }
}

#[test]
fn what_does_not_hold_is_none() {
    for text in [
        "slowdown.p99>5",
        "slowdown.p99<4.713",
        "slowdown.p99>3 and slowdown.mean>2",
        // `and` binds tighter than `or`.
        "slowdown.mean>2 or slowdown.p99>3 and slowdown.mean>2",
        "(slowdown.mean<2 or slowdown.p99>3) and slowdown.mean>2",
        "fabrics.edm.slowdown>1.05",
    ] {
        assert_eq!(holds(text), None, "{text}");
    }
}

#[test]
fn units_are_those_of_the_path() {
    for text in [
        "completion_ns.p99 > 4us",
        "completion_ns.p99 <= 4999",
        "completion_ns.p99 < 5us",
        "throughput_gbps < 100Gbps",
        "throughput_gbps == 80",
        "queue_bytes.max >= 64KiB",
        "native.median_s >= 500ms",
        "completion_ns.p99 < native.median_s",
        "packet_hops_per_s < 11",
    ] {
        assert!(holds(text).is_some(), "{text}");
    }
    assert_eq!(holds("completion_ns.p99 > 5us"), None);
    for (text, why) in [
        ("slowdown.p99 > 5us", "`slowdown.p99` is a number without a unit, and `5us` is a time"),
        ("completion_ns.p99 > 5KiB", "`completion_ns.p99` is a time, and `5KiB` is a size"),
        ("packet_hops_per_s < 11s", "`packet_hops_per_s` is a number without a unit"),
        ("queue_bytes.max > throughput_gbps", "is a size, and `throughput_gbps` is a rate"),
    ] {
        let refused = text.parse::<FailIf>().unwrap_err();
        assert!(refused.contains(why), "{text}: {refused}");
    }
}

#[test]
fn a_missing_value_counts_as_beyond_the_limit() {
    assert_eq!(holds("slowdown.max>1000").as_deref(), Some("slowdown.max is not known (null)"));
    assert_eq!(holds("slowdown.max<0").as_deref(), Some("slowdown.max is not known (null)"));
    assert!(holds("program.slowdown>2").is_some());
    // A missing value does not make up for a part that does not hold.
    assert_eq!(holds("slowdown.max>1000 and slowdown.mean>2"), None);
}

#[test]
fn what_is_no_expression_is_refused_with_what_to_write() {
    for (text, why) in [
        ("", "slowdown.p99>3"),
        ("slowdown.p99", "compared with nothing"),
        ("slowdown.p99>", "it ends"),
        ("slowdown.p99 = 3", "`=` has no meaning there: compare by <, <=, >, >=, =="),
        ("slowdown.p99>3 slowdown.mean>1", "`and` or `or`"),
        ("slowdown.p99>3 && slowdown.mean>1", "no meaning"),
        ("(slowdown.p99>3", "closing parenthesis"),
        ("slowdown.p99>3)", "not expected"),
        ("slowdown.p99>5parsecs", "`5parsecs` is no number"),
        ("3>2", "no part of a result"),
        ("slowdown.p99>>3", "`>` stands where"),
        (&"(".repeat(10_000), "nested too deeply"),
    ] {
        let refused = text.parse::<FailIf>().unwrap_err();
        assert!(refused.contains(why), "{text:.40}: {refused}");
    }
}

fn refused(shape: &ValueShape, text: &str) -> Option<String> {
    match text.parse::<FailIf>().unwrap().check(shape) {
        Ok(()) => None,
        Err(CommandFailure::Usage(why)) => Some(why),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn paths_of_a_simulation_are_known_before_it() {
    let shape = ValueShape::from_type::<Summary>().with("machine", ValueShape::from_type::<Machine>());
    for text in [
        "slowdown.p99>3",
        "by_kind.read.completion_ns.p999>1us",
        "jobs.training.completion_ns>1s",
        "unfinished.messages>0",
        "hosts.cache_hit_rate<0.5",
        "program.slowdown>2",
        "machine.wall_s>60",
    ] {
        assert_eq!(refused(&shape, text), None, "{text}");
    }
    for (text, why) in [
        ("slowdwon.p99>3", "the summary has no `slowdwon`; did you mean `slowdown`?"),
        ("slowdown.p98>3", "`slowdown` has no `p98`; did you mean `p9"),
        ("slowdown>3", "`slowdown` is no number, but has count, max, mean, p50, p95, p99, p999"),
        ("fabric>3", "`fabric` is no number"),
        ("dropped.packets>3", "`dropped` has no `packets`: it is a single value"),
        ("slowdown.mean>3 and drops>1", "the summary has no `drops`"),
    ] {
        let refused = refused(&shape, text).unwrap_or_default();
        assert!(refused.contains(why) && refused.contains(&format!("'{text}'")), "{text}: {refused}");
    }
}

#[test]
fn paths_of_a_comparison_are_known_before_it() {
    let shape =
        ValueShape::from_type::<Comparison>().with_elements("fabrics", vec!["edm".into(), "cxl".into()]);
    for text in ["fabrics.edm.slowdown>1.05", "native.median_s>2s", "fabrics.0.fetch_us.p99>5us"] {
        assert_eq!(refused(&shape, text), None, "{text}");
    }
    // The simulation's own summary may hold anything.
    assert_eq!(refused(&shape, "fabrics.cxl.simulation.slowdown.p99>3"), None);
    let why = refused(&shape, "fabrics.emd.slowdown>1.05").unwrap();
    assert!(why.contains("`fabrics` has no `emd`; did you mean `edm`?"), "{why}");
    let why = refused(&shape, "fabrics.edm.slowdwon>1.05").unwrap();
    assert!(why.contains("did you mean `slowdown"), "{why}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z0-9._%<>=!() +-]{0,40}") {
        if let Ok(parsed) = text.parse::<FailIf>() {
            parsed.holds(&result());
            parsed.check(&ValueShape::from_type::<Summary>()).ok();
        }
    }

    #[test]
    fn a_comparison_is_that_of_the_numbers(value in -1e6..1e6f64, limit in -1e6..1e6f64) {
        let holds = |sign: &str| {
            let parsed: FailIf = format!("a.b{sign}{limit}").parse().unwrap();
            parsed.holds(&json!({ "a": { "b": value } })).is_some()
        };
        prop_assert_eq!(
            [holds("<"), holds("<="), holds(">"), holds(">="), holds("=="), holds("!=")],
            [value < limit, value <= limit, value > limit, value >= limit, value == limit, value != limit]
        );
    }
}
