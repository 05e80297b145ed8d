//! Makes the column of one key of a sweep, with a type that fits all its values.
//!
//! | values | column | unit, as the end of the column's name |
//! |---|---|---|
//! | whole numbers | `Int64` | |
//! | numbers, shares such as `25%` | `Float64` | 25% is 0.25 |
//! | durations | `Float64` | `_ns` |
//! | rates | `UInt64` | `_bps` |
//! | sizes | `UInt64` | `_bytes` |
//! | `true`, `false` | `Boolean` | |
//! | anything else, or a mixture of the above | text as given | |

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use toml::Value;
use unrack_units::{Bytes, Rate, Time};

/// Returns the name and the values of the column for `key`. `texts` are the key's values in the order of the points.
pub(super) fn column(key: &str, texts: &[&str]) -> (String, ArrayRef) {
    let values: Vec<Value> = texts.iter().map(|text| toml_of(text)).collect();
    if let Some(numbers) = all(&values, Value::as_integer) {
        return (key.into(), Arc::new(Int64Array::from(numbers)));
    }
    if let Some(numbers) = all(&values, number) {
        return (key.into(), Arc::new(Float64Array::from(numbers)));
    }
    if let Some(times) = all(&values, quantity::<Time>) {
        let ns: Vec<f64> = times.into_iter().map(Time::as_ns_f64).collect();
        return (format!("{key}_ns"), Arc::new(Float64Array::from(ns)));
    }
    if let Some(rates) = all(&values, quantity::<Rate>) {
        let bps: Vec<u64> = rates.into_iter().map(Rate::as_bps).collect();
        return (format!("{key}_bps"), Arc::new(UInt64Array::from(bps)));
    }
    if let Some(sizes) = all(&values, quantity::<Bytes>) {
        let bytes: Vec<u64> = sizes.into_iter().map(Bytes::get).collect();
        return (format!("{key}_bytes"), Arc::new(UInt64Array::from(bytes)));
    }
    if let Some(truths) = all(&values, Value::as_bool) {
        return (key.into(), Arc::new(BooleanArray::from(truths)));
    }
    let text = |(value, text): (&Value, &&str)| value.as_str().unwrap_or(text).to_string();
    (key.into(), Arc::new(StringArray::from_iter_values(values.iter().zip(texts).map(text))))
}

/// Parses a value as `--set` does: a value that is not TOML is text.
fn toml_of(text: &str) -> Value {
    let table = toml::Table::from_str(&format!("value = {text}")).ok();
    let alone = table.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    alone.unwrap_or_else(|| Value::String(text.into()))
}

/// Converts all values by `of`. Returns `None` if `of` fails for any value.
fn all<T>(values: &[Value], of: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    values.iter().map(of).collect()
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::String(text) => Some(text.strip_suffix('%')?.trim_end().parse::<f64>().ok()? / 100.0),
        _ => None,
    }
}

/// Parses a quantity with its unit. Only 0 needs no unit.
fn quantity<T: FromStr>(value: &Value) -> Option<T> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Integer(0) => "0".parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    fn shown(texts: &[&str]) -> String {
        let (name, values) = column("key", texts);
        let shown: Vec<String> = (0..values.len()).map(|row| one(&values, row)).collect();
        format!("{name} {} {}", values.data_type(), shown.join(" "))
    }

    fn one(values: &ArrayRef, row: usize) -> String {
        let any = values.as_any();
        let whole = any.downcast_ref::<Int64Array>().map(|a| a.value(row).to_string());
        let count = || any.downcast_ref::<UInt64Array>().map(|a| a.value(row).to_string());
        let real = || any.downcast_ref::<Float64Array>().map(|a| a.value(row).to_string());
        let truth = || any.downcast_ref::<BooleanArray>().map(|a| a.value(row).to_string());
        let text = || any.downcast_ref::<StringArray>().map(|a| a.value(row).to_string());
        whole.or_else(count).or_else(real).or_else(truth).or_else(text).unwrap()
    }

    #[test]
    fn values_of_one_kind_have_their_type_and_unit() {
        for (texts, column) in [
            (&["1", "1_000", "-3"][..], "key Int64 1 1000 -3"),
            (&["0.1", "1", "5e-1"], "key Float64 0.1 1 0.5"),
            (&["25%", "0.5", "1"], "key Float64 0.25 0.5 1"),
            (&["0", "10ns", "2.56ns", "3us"], "key_ns Float64 0 10 2.56 3000"),
            (&["25Gbps", "400Gbps"], "key_bps UInt64 25000000000 400000000000"),
            (&["64B", "4KiB", "\"1kB\""], "key_bytes UInt64 64 4096 1000"),
            (&["true", "false"], "key Boolean true false"),
            (&["edm", "\"cxl\"", "pfc-dcqcn"], "key Utf8 edm cxl pfc-dcqcn"),
        ] {
            assert_eq!(shown(texts), column);
        }
    }

    #[test]
    fn values_of_several_kinds_are_text_as_given() {
        for texts in [
            &["64B", "{ cdf = \"websearch\" }"][..],
            &["36KiB", "shared 12MiB"],
            &["10ns", "100Gbps"],
            &["1", "edm"],
            &["1", "10ns"],
            &["true", "1"],
            &["[8, 8, 8]", "[4, 4]"],
            &["1\nother = 2", "3"],
        ] {
            assert_eq!(shown(texts), format!("key Utf8 {}", texts.join(" ")));
        }
    }
}
