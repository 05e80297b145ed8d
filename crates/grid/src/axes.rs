//! Axes of a grid: keys of scenarios, each with a list of values.

/// One axis of a grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

/// Returns every choice of a value for each axis; those of the last vary fastest.
pub fn product(axes: &[Axis]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |points, axis| {
        let with = |point: Vec<String>| {
            axis.values.iter().map(move |value| [point.as_slice(), std::slice::from_ref(value)].concat())
        };
        points.into_iter().flat_map(with).collect()
    })
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
}
