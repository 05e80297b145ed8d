//! Open-loop source that submits a list of messages at given times, such as flows from a file.

use crate::error::WorkloadError;
use crate::message::Message;
use crate::size::{MAX_BYTES, bounds};
use crate::source::{Outbox, Source};
use std::borrow::Cow;
use std::sync::Arc;
use unrack_input::clipped;
use unrack_units::{Bytes, Time};

/// Source that submits each message of a list at the message's time.
pub struct ListedMessages {
    messages: Arc<Vec<(Time, Message)>>,
    next: usize,
}

/// Parses a list of messages in CSV format: a header, and then one message per line, with the columns
/// `src,dst,bytes,start_ns[,kind]` in any order. `kind` is read, write, rmw or flow; without this column, every message
/// is a flow. `start_ns` may have up to three decimals, so that each time is a whole number of picoseconds.
///
/// # Errors
/// If a column is missing, a line does not describe a message, or there is no message.
pub fn parse_csv(text: &str) -> Result<Vec<(Time, Message)>, WorkloadError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or_else(|| refusal("has a header line", "empty"))?;
    let columns = ListedColumns::from_header(header)?;
    let messages: Vec<_> =
        lines.map(|(number, line)| columns.message(number + 1, line)).collect::<Result<_, _>>()?;
    match messages.is_empty() {
        true => Err(refusal("has at least one message", "a header line alone")),
        false => Ok(messages),
    }
}

/// Parses a time in nanoseconds with at most three decimals. Returns `None` for any other text. If the time is too
/// large for [`Time`], returns [`Time::MAX`], which is after [`Time::END`].
fn parse_ns(text: &str) -> Option<Time> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if !are_digits(whole) || !are_digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let ps: u64 = format!("{decimals:0<3}").parse().ok()?;
    let ns = whole.parse::<u64>().ok();
    Some(ns.and_then(|ns| ns.checked_mul(1_000)?.checked_add(ps)).map_or(Time::MAX, Time::from_ps))
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Position of each column in the lines of a list.
struct ListedColumns {
    src: usize,
    dst: usize,
    bytes: usize,
    start_ns: usize,
    kind: Option<usize>,
}

impl ListedColumns {
    fn from_header(header: &str) -> Result<ListedColumns, WorkloadError> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let place = |name| names.iter().position(|column| *column == name);
        let needed = |name| place(name).ok_or_else(|| refusal(HEADER, clipped(header)));
        Ok(ListedColumns {
            src: needed("src")?,
            dst: needed("dst")?,
            bytes: needed("bytes")?,
            start_ns: needed("start_ns")?,
            kind: place("kind"),
        })
    }

    fn message(&self, number: usize, line: &str) -> Result<(Time, Message), WorkloadError> {
        let refuse = |rule: Cow<'static, str>, what: &str| {
            refusal(rule, format!("{} in line {number}", clipped(what)))
        };
        let bad = || refuse(NUMBERS.into(), &format!("`{line}`"));
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |place: usize| fields.get(place).copied().ok_or_else(bad);
        // If a whole number is too large, the error names the rule of its column, and not the rule that the field must
        // be a whole number.
        let number_at = |place, rule: Cow<'static, str>| {
            let field = field(place)?;
            let digits = field.strip_prefix('+').unwrap_or(field);
            match field.parse::<u64>() {
                Ok(number) => Ok(number),
                Err(_) if are_digits(digits) => Err(refuse(rule, field)),
                Err(_) => Err(bad()),
            }
        };
        let node = |place| {
            let node = number_at(place, NODES.into())?;
            u32::try_from(node).map_err(|_| refuse(NODES.into(), &node.to_string()))
        };
        let (src, dst) = (node(self.src)?, node(self.dst)?);
        let bytes = number_at(self.bytes, sizes().into())?;
        let start = field(self.start_ns)?;
        let at = parse_ns(start).ok_or_else(bad)?;
        if at >= Time::END {
            return Err(refuse(STARTS.into(), &format!("{start} ns")));
        }
        let make = match self.kind.map(field).transpose()? {
            None | Some("flow") => Message::flow,
            Some("read") => Message::read,
            Some("write") => Message::write,
            Some("rmw") => Message::rmw,
            Some(_) => return Err(refusal(KINDS, format!("`{}` in line {number}", clipped(line)))),
        };
        Ok((at, make(src, dst, bytes)))
    }
}

const NUMBERS: &str = "has whole numbers in its columns, and at most three decimals in `start_ns`";
const NODES: &str = "names nodes of the rack";
const STARTS: &str = "starts its messages within 106 days of simulated time (times since 1970 or since boot: subtract the \
                      first one from all)";
const HEADER: &str = "has the columns src,dst,bytes,start_ns";
const KINDS: &str = "has the kinds read, write, rmw and flow";

/// Returns the rule for the column `bytes`, as text for an error message.
fn sizes() -> String {
    format!("has messages of {}", bounds())
}

fn refusal(rule: impl Into<Cow<'static, str>>, value: impl std::fmt::Display) -> WorkloadError {
    WorkloadError::new("workload.file", rule, value)
}

impl ListedMessages {
    /// Creates a source for messages that are sorted by time, among `nodes` nodes.
    ///
    /// # Errors
    /// If the messages are not sorted, or a node, size or time of a message is out of bounds.
    pub fn new(messages: Arc<Vec<(Time, Message)>>, nodes: u32) -> Result<ListedMessages, WorkloadError> {
        let refuse = |rule: &'static str, value: String| Err(refusal(rule, value));
        let mut before = Time::ZERO;
        for (n, (at, message)) in messages.iter().enumerate() {
            let (n, Message { src, dst, bytes, .. }) = (n + 1, *message);
            if *at < before {
                return refuse("is sorted by time", format!("{at} after {before} in message {n}"));
            }
            if *at >= Time::END {
                return refuse(STARTS, format!("{at} in message {n}"));
            }
            if src >= nodes || dst >= nodes {
                return refuse(NODES, format!("{src} to {dst} of {nodes} in message {n}"));
            }
            if src == dst {
                return refuse("is between different nodes", format!("{src} to {dst} in message {n}"));
            }
            if !(1..=MAX_BYTES).contains(&bytes) {
                return Err(refusal(sizes(), format!("{} in message {n}", Bytes::new(bytes))));
            }
            before = *at;
        }
        Ok(ListedMessages { messages, next: 0 })
    }

    fn sleep<O: Outbox>(&self, out: &mut O) {
        if let Some((at, _)) = self.messages.get(self.next) {
            out.wake_at(*at, 0);
        }
    }
}

impl Source for ListedMessages {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        self.sleep(out);
    }
    fn wake<O: Outbox>(&mut self, _actor: u32, _now: Time, out: &mut O) {
        out.submit(self.messages[self.next].1);
        self.next += 1;
        self.sleep(out);
    }
    fn completed<O: Outbox>(&mut self, _message: &Message, _now: Time, _out: &mut O) {}
    fn total(&self) -> Option<u64> {
        Some(self.messages.len() as u64)
    }
    fn is_exhausted(&self) -> bool {
        self.next == self.messages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_below_a_nanosecond_are_read_to_the_picosecond() {
        let list =
            parse_csv("src,dst,bytes,start_ns\n0,1,2,0.001\n0,1,2,0.25\n0,1,2,7.5\n0,1,2,8\n").unwrap();
        let starts: Vec<u64> = list.iter().map(|(at, _)| at.as_ps()).collect();
        assert_eq!(starts, [1, 250, 7_500, 8_000]);
    }

    #[test]
    fn a_whole_number_that_is_too_large_is_refused_by_the_rule_of_its_column() {
        let refused = |row: &str| {
            let text = format!("src,dst,bytes,start_ns\n0,1,2,3\n{row}\n");
            parse_csv(&text).unwrap_err().to_string()
        };
        // All these times are too large. In picoseconds, the first one fits into 64 bits, and the next two, which are
        // times since 1970, do not. The last one does not fit into 64 bits even in nanoseconds.
        for start in ["9223372036854776", "1764450000000000000", "1764450000000000000.5", &"9".repeat(30)] {
            let said = refused(&format!("0,1,2,{start}"));
            assert!(said.contains("within 106 days") && said.contains("subtract the first"), "{said}");
            assert!(said.contains(&format!("but is {start} ns in line 3")), "{said}");
        }
        assert!(refused("4294967296,1,2,3").contains("names nodes of the rack, but is 4294967296 in line 3"));
        assert!(refused(&format!("0,{},2,3", "9".repeat(30))).contains("names nodes of the rack"));
        assert!(
            refused("0,1,18446744073709551616,3").contains("has messages of 1B to 1024GiB, but is 184467")
        );
        assert!(parse_csv("src,dst,bytes,start_ns\n0,1,2,9223372036854775.807\n").is_ok());
    }

    #[test]
    fn a_list_is_read_by_its_header() {
        let list = parse_csv("dst, src,start_ns,bytes,kind\n1,0,5,64,read\n\n0,2,7,100,flow\n").unwrap();
        let expected =
            [(Time::from_ns(5), Message::read(0, 1, 64)), (Time::from_ns(7), Message::flow(2, 0, 100))];
        assert_eq!(list, expected);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        let parsed = |text: &str| parse_csv(text).unwrap_err().to_string();
        assert!(parsed("").contains("header"));
        assert!(parsed("src,dst,bytes\n").contains("start_ns"));
        assert!(parsed("src,dst,bytes,start_ns\n").contains("at least one message"));
        for start in ["0.0001", "1e3", "-1", ".5", "5.", "+1", "1.5.5"] {
            let text = format!("src,dst,bytes,start_ns\n0,1,2,{start}\n");
            assert!(parsed(&text).contains("line 2"), "{start}");
        }
        assert!(parsed("src,dst,bytes,start_ns\n0,1,2,3\n0,1,-2,3\n").contains("line 3"));
        assert!(parsed("src,dst,bytes,start_ns,kind\n0,1,2,3,fetch\n").contains("line 2"));
        let listed = |rows: &[(u64, u32, u32, u64)]| {
            let row = |(at, src, dst, bytes): &(u64, u32, u32, u64)| {
                (Time::from_ps(*at), Message::flow(*src, *dst, *bytes))
            };
            ListedMessages::new(Arc::new(rows.iter().map(row).collect()), 4).err().unwrap().to_string()
        };
        let back = listed(&[(2, 0, 1, 1), (1, 0, 1, 1)]);
        assert!(back.contains("sorted by time") && back.contains("message 2"), "{back}");
        let unknown = listed(&[(0, 0, 3, 1), (0, 0, 4, 1)]);
        assert!(unknown.contains("nodes of the rack") && unknown.contains("message 2"), "{unknown}");
        assert!(listed(&[(0, 2, 2, 1)]).contains("different nodes"));
        assert!(listed(&[(0, 0, 1, 0)]).contains("messages of 1B to 1024GiB, but is 0B in message 1"));
        let long = listed(&[(0, 0, 1, 5 << 30), (0, 0, 1, (1 << 40) + (1 << 30))]);
        assert!(long.contains("but is 1025GiB in message 2"), "{long}");
    }
}
