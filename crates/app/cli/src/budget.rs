//! `--budget`: the time of a whole answer, as people write it.

use unrack_units::Time;

/// Help of the option.
pub(crate) const HELP: &str = "Time limit of the whole command, such as 90s or 2m: runs are left out, a recorded run of lines is ended early, and answers that lack what was left out are withheld. What is left of it goes into more runs where answers are too uncertain";

/// Parses `90s`, `2m`, `2min` or `1h`: minutes and hours as people write them.
pub(crate) fn parse(text: &str) -> Result<Time, String> {
    let minutes = |number: &str, each: u32| {
        let number: f64 = number.trim_end().parse().map_err(|_| ())?;
        Ok::<_, ()>(format!("{}s", number * f64::from(each) * 60.0))
    };
    let seconds = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(number), _) => minutes(number, 1),
        (_, Some(number)) => minutes(number, 60),
        _ => Ok(text.into()),
    };
    let why = || format!("{text:?} is no time: write it as 90s, 2m or 1h");
    let time: Time = seconds.map_err(|()| why())?.parse().map_err(|_| why())?;
    if time == Time::ZERO {
        Err("a budget of 0 is too small: write it as 90s, 2m or 1h".into())
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text| parse(text).map(|time| time.as_secs_f64());
        let cases = [("90s", 90.0), ("2m", 120.0), ("2min", 120.0), ("1.5h", 5400.0), ("500ms", 0.5)];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "m", "2", "-1m", "0s", "0m", "2 weeks", "NaNm", "infm", "1e30h"] {
            let why = seconds(text).unwrap_err();
            assert!(why.contains("90s, 2m or 1h"), "{text}: {why}");
        }
    }
}
