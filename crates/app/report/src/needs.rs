//! Requirements of a program as sentences. Each number comes with its interval, or with the reason why it is withheld.

use unrack_record::{Comparison, Interval, Requirement, Stated};

use crate::words::{listed, nanoseconds, percent, rate};

/// Returns, for each loss, a text such as "For at most 5 % slowdown: at most 3.2 µs per page fetch (2.9 to 3.6 µs), or at least 40 % local
/// memory ...". If all are withheld for the same reason, returns one line.
pub(crate) fn all(c: &Comparison) -> Vec<String> {
    let reason = |r: &Requirement| r.max_fetch_us.reason().map(|why| why.text.clone());
    if let Some(why) = c.requirements.first().and_then(reason)
        && c.requirements.iter().all(|r| reason(r).as_ref() == Some(&why))
    {
        return vec![format!("withheld: {why}")];
    }
    c.requirements.iter().map(|r| one(r, c.injection.bandwidth_bps, c.injection.page_us)).collect()
}

fn one(r: &Requirement, link_bps: u64, page_us: f64) -> String {
    let start = format!("for at most {} slowdown", percent(r.loss));
    let need = match &r.max_fetch_us {
        Stated::Withheld { withheld } => return format!("{start}: withheld: {withheld}"),
        Stated::Known(need) => need,
    };
    let bits = format!("the bits of a page alone take {}", us(page_us));
    match r.feasible {
        Some(false) => {
            let link = format!("no link of {} does this, where {bits}", rate(link_bps));
            format!("{start}: {}, but {link}; {}", fetch_time(need), instead(r))
        }
        None if need.value.is_some() => {
            format!(
                "{start}: {}; open is whether a link of {} does this, where {bits}",
                ways(need, r),
                rate(link_bps)
            )
        }
        _ => format!("{start}: {}", ways(need, r)),
    }
}

/// Returns the ways to meet a requirement: a fetch time, or more local memory.
fn ways(need: &Interval, r: &Requirement) -> String {
    let local = local_memory(r).map(|local| format!(", or {local}"));
    fetch_time(need) + &local.unwrap_or_default()
}

fn fetch_time(need: &Interval) -> String {
    match (need.value, need.high) {
        (Some(value), Some(high)) => {
            format!("at most {} per page fetch ({} to {})", us(value), us(need.low), us(high))
        }
        _ => format!("any time up to {} per page fetch will do", us(need.low)),
    }
}

/// Returns the alternatives if no link of this rate suffices.
fn instead(r: &Requirement) -> String {
    let link = r.feasible_rate_bps.map(|bps| format!("a link of at least {} and no latency", rate(bps)));
    let ways: Vec<_> = link.into_iter().chain(local_memory(r)).collect();
    match ways.is_empty() {
        true => "nothing does at this local share".into(),
        false => format!("this would: {}", ways.join(", or ")),
    }
}

fn local_memory(r: &Requirement) -> Option<String> {
    let at = r.at_fetch_us.map_or(String::new(), |at| format!(" with {} per fetch", us(at)));
    let local = match r.min_local.as_ref()? {
        Stated::Withheld { withheld } => {
            return Some(format!("more local memory{at} (how much is withheld: {withheld})"));
        }
        Stated::Known(local) => local,
    };
    let value = local.value.unwrap_or(local.low);
    let ends =
        local.high.map_or(String::new(), |high| format!(" ({} to {})", percent(local.low), percent(high)));
    Some(format!("at least {} local memory{ends}{at}", percent(value)))
}

/// Returns the first known requirement for the one-sentence answer: the loss, and the fetch time that keeps within it.
pub(crate) fn headline(c: &Comparison) -> Option<String> {
    let known = |r: &Requirement| Some((r.loss, *r.max_fetch_us.known()?, r.feasible));
    let (loss, need, feasible) = c.requirements.iter().find_map(known)?;
    let no_link = match feasible {
        Some(false) => format!(", which no link of {} can do", rate(c.injection.bandwidth_bps)),
        _ => String::new(),
    };
    let loss = percent(loss);
    Some(match (need.value, need.high) {
        (Some(value), Some(high)) => format!(
            "To lose at most {loss}, a page fetch may take at most {} on average ({} to {}){no_link}.",
            us(value),
            us(need.low),
            us(high)
        ),
        _ => format!("It loses at most {loss} whatever a page fetch takes, up to {}.", us(need.low)),
    })
}

/// Returns a sentence with the fabrics whose slowdown is withheld, such as "edm, cxl and dctcp", and the reason.
pub(crate) fn withheld_fabrics(c: &Comparison) -> Option<String> {
    let (names, why): (Vec<_>, Vec<_>) = c
        .fabrics
        .iter()
        .filter(|f| f.slowdown.is_none())
        .filter_map(|f| Some((f.fabric.clone(), f.withheld.as_ref()?)))
        .unzip();
    let why = why.first()?;
    Some(format!("The answer for {} is withheld: {why}.", listed(&names)))
}

fn us(value: f64) -> String {
    nanoseconds(value * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_record::Warning;

    fn interval(value: f64, low: f64, high: f64) -> Interval {
        Interval { value: Some(value), low, high: Some(high) }
    }

    fn plain(r: &Requirement) -> String {
        one(r, 100_000_000_000, 0.32768).replace('\u{a0}', " ")
    }

    fn needing(need: Interval, feasible: Option<bool>) -> Requirement {
        Requirement {
            loss: 0.05,
            max_fetch_us: Stated::Known(need),
            min_local: Some(Stated::Known(interval(0.4, 0.3, 0.6))),
            at_fetch_us: Some(5.0),
            feasible,
            feasible_rate_bps: None,
        }
    }

    #[test]
    fn a_need_has_its_interval() {
        assert_eq!(
            plain(&needing(interval(3.2, 2.9, 3.6), Some(true))),
            "for at most 5 % slowdown: at most 3.2 µs per page fetch (2.9 µs to 3.6 µs), or at least 40 % local memory \
             (30 % to 60 %) with 5 µs per fetch"
        );
        let any = Requirement {
            min_local: None,
            ..needing(Interval { value: None, low: 500.0, high: None }, Some(true))
        };
        assert_eq!(plain(&any), "for at most 5 % slowdown: any time up to 500 µs per page fetch will do");
    }

    #[test]
    fn what_no_link_does_is_said_with_what_would() {
        let impossible = needing(interval(0.033, 0.03, 0.036), Some(false));
        assert_eq!(
            plain(&Requirement { feasible_rate_bps: Some(993_000_000_000), ..impossible.clone() }),
            "for at most 5 % slowdown: at most 33 ns per page fetch (30 ns to 36 ns), but no link of 100 Gb/s does this, where \
             the bits of a page alone take 328 ns; this would: a link of at least 993 Gb/s and no latency, or at least 40 % \
             local memory (30 % to 60 %) with 5 µs per fetch"
        );
        assert!(
            plain(&impossible)
                .ends_with("this would: at least 40 % local memory (30 % to 60 %) with 5 µs per fetch")
        );
        let nothing = Requirement { min_local: None, ..impossible };
        assert!(plain(&nothing).ends_with("; nothing does at this local share"));
        let open = plain(&needing(interval(0.33, 0.3, 0.36), None));
        assert!(open.ends_with(
            "open is whether a link of 100 Gb/s does this, where the bits of a page alone take 328 ns"
        ));
    }

    #[test]
    fn what_is_withheld_is_said_with_the_reason() {
        let why = || Stated::withheld(Warning::new("disturbed", "other work; stop it"));
        let all = Requirement {
            max_fetch_us: why(),
            min_local: Some(why()),
            ..needing(interval(1.0, 1.0, 1.0), None)
        };
        assert_eq!(plain(&all), "for at most 5 % slowdown: withheld: other work; stop it");
        let local = Requirement { min_local: Some(why()), ..needing(interval(3.2, 2.9, 3.6), Some(true)) };
        assert!(plain(&local).contains(
            "or more local memory with 5 µs per fetch (how much is withheld: other work; stop it)"
        ));
    }
}
