//! Axes of a grid: keys of scenarios, each with a list of values.

/// One axis of a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

/// Largest number of points of a grid. All points are checked and kept in memory before the first of them runs.
const MOST_POINTS: usize = 1_000_000;

/// Returns all combinations of one value for each axis. The values of the last axis vary fastest.
pub fn product(axes: &[Axis]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let with = |point: Vec<String>| {
            axis.values.iter().map(move |value| [point.as_slice(), std::slice::from_ref(value)].concat())
        };
        points.into_iter().flat_map(with).collect()
    })
}

/// Parses axes. Each is written as `KEY=VALUE` or `KEY=VALUE,VALUE,...`; the axis of seeds is written as `1..5` or
/// `1,2,7` and comes last.
///
/// # Errors
/// Returns the invalid text of `--set` or `--seeds`, and how to write it correctly.
pub fn parsed(set: &[String], seeds: Option<&str>) -> Result<Vec<Axis>, String> {
    let mut axes = Vec::new();
    for text in set {
        let (key, values) = text
            .split_once('=')
            .ok_or_else(|| format!("--set {text}: write KEY=VALUE or KEY=VALUE,VALUE,..."))?;
        axes.push(Axis { key: key.trim().into(), values: list(values) });
    }
    if let Some(text) = seeds {
        axes.push(Axis { key: "seed".into(), values: numbers(text)? });
    }
    for (n, axis) in axes.iter().enumerate() {
        if axes[..n].iter().any(|other| other.key == axis.key) {
            return Err(format!("`{}` is set twice", axis.key));
        }
        if let Some(value) = axis.values.iter().enumerate().find(|(n, v)| axis.values[..*n].contains(v)) {
            return Err(format!("--set {}: `{}` is in the list twice", axis.key, value.1));
        }
    }
    let sizes = axes.iter().map(|axis| axis.values.len());
    let points = sizes.clone().try_fold(1usize, usize::checked_mul);
    if points.is_none_or(|points| points > MOST_POINTS) {
        let sizes = sizes.map(|size| size.to_string()).collect::<Vec<_>>().join(" x ");
        return Err(format!(
            "{sizes} values are more than {MOST_POINTS} points: leave values out, or sweep in steps"
        ));
    }
    Ok(axes)
}

/// Splits a list at commas that are outside brackets, braces and quotes. In double quotes, a backslash escapes the next
/// character.
fn list(text: &str) -> Vec<String> {
    let (mut depth, mut quote, mut values) = (0u32, None, vec![String::new()]);
    let mut is_escaped = false;
    for character in text.chars() {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match (quote, character) {
            (Some(_), _) if was_escaped => {}
            (Some('"'), '\\') => is_escaped = true,
            (Some(end), _) if character == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        values.last_mut().expect("there is one").push(character);
    }
    values.iter().map(|value| value.trim().to_string()).collect()
}

/// Parses `1..5`, which includes both ends, or `1,2,7`.
fn numbers(text: &str) -> Result<Vec<String>, String> {
    const MOST: u64 = 100_000;
    let wrong = || format!("--seeds {text}: write FIRST..LAST, such as 1..5, or a list, such as 1,2,7");
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let numbers: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
            if first > last || last - first >= MOST {
                return Err(wrong());
            }
            (first..=last).collect()
        }
        None => text.split(',').map(number).collect::<Result<_, _>>()?,
    };
    Ok(numbers.iter().map(u64::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_varies_fastest() {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.into(),
            values: values.iter().map(|value| value.to_string()).collect(),
        };
        let points = product(&[axis("a", &["1", "2"]), axis("b", &["x"]), axis("seed", &["7", "8", "9"])]);
        assert_eq!(points.len(), 6);
        assert_eq!(points[1], ["1", "x", "8"]);
        assert_eq!(points[3], ["2", "x", "7"]);
        assert_eq!(product(&[]), [Vec::<String>::new()], "no axes leave the scenario itself");
    }

    #[test]
    fn lists_are_cut_at_commas_outside_of_everything() {
        assert_eq!(list("0.1, 0.5,0.9"), ["0.1", "0.5", "0.9"]);
        assert_eq!(
            list("{ cdf = \"a,b\", n = [1, 2] },64B,'x,y'"),
            ["{ cdf = \"a,b\", n = [1, 2] }", "64B", "'x,y'"]
        );
        assert_eq!(list(r#""a\",b\\",'c\',d"#), [r#""a\",b\\""#, r"'c\'", "d"]);
        assert_eq!(list("one"), ["one"]);
    }

    #[test]
    fn seeds_come_last() {
        let axes = parsed(&["a=1,2".into(), "b=x".into()], Some("7..9")).unwrap();
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "seed"]);
        assert_eq!(axes[2].values, ["7", "8", "9"]);
    }

    #[test]
    fn what_makes_no_grid_is_refused() {
        let refused = |set: &[&str], seeds| {
            parsed(&set.iter().map(|text| text.to_string()).collect::<Vec<_>>(), seeds).unwrap_err()
        };
        assert!(refused(&["load"], None).contains("KEY=VALUE"));
        assert!(refused(&["a=1", "a=2"], None).contains("set twice"));
        assert!(refused(&["seed=1"], Some("1..2")).contains("set twice"));
        assert!(refused(&["a=1,1"], None).contains("in the list twice"));
        let many = |key: &str| (0..4000).fold(format!("{key}=0"), |text, n| text + &format!(",{}", n + 1));
        assert!(refused(&[&many("a"), &many("b")], None).contains("4001 x 4001 values"));
        for seeds in ["5..1", "x", "1..", "0..99999999"] {
            assert!(refused(&[], Some(seeds)).contains("--seeds"), "{seeds}");
        }
    }
}
