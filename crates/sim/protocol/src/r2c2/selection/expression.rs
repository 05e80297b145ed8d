//! Utility of a rack, which a scenario specifies as an expression over the rates of the rack's flows.
//!
//! `rate` is the rate of each flow, in Gb/s. `sum(e)`, `mean(e)`, `min(e)`, `max(e)` and `percentile(p, e)` reduce the values of all flows
//! to one number. `log(e)`, `sqrt(e)`, `+ - * /`, a sign and brackets have their usual meaning. If an operand has one value for each flow,
//! these operations are applied to the value of each flow. `aggregate` is `sum(rate)`, `tail` is `percentile(5, rate)`, and `count` is the
//! number of flows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Expression that computes the utility, a single number, from the rates of all flows. A larger utility is better.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Number(f64),
    Rate,
    Count,
    /// Function that is applied to the value of each flow, or to a single number.
    Map(fn(f64) -> f64, Box<Node>),
    Combine(fn(f64, f64) -> f64, Box<[Node; 2]>),
    /// Reduction of the values of all flows to one number.
    Fold(Fold, Box<Node>),
}

#[derive(Debug, Clone, Copy)]
enum Fold {
    Sum,
    Mean,
    /// Nearest-rank percentile, in percent.
    Percentile(f64),
}

/// Error in the text of an expression, and the character at which the error is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnExpression {
    text: String,
    /// Index of the character in `text`, from 0.
    at: usize,
    why: String,
}

impl std::error::Error for NotAnExpression {}

impl fmt::Display for NotAnExpression {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let indent = " ".repeat(self.at);
        write!(f, "{}\n    {}\n    {indent}^", self.why, self.text)
    }
}

/// Maximum number of characters of an expression.
const MOST: usize = 1_000;
/// Maximum nesting depth of brackets, signs and functions.
const DEEPEST: u32 = 50;

const NAMES: &str = "rate, aggregate, tail, count, sum, mean, min, max, percentile, log, sqrt";

impl Expression {
    /// Returns the utility `aggregate`: the sum of all rates.
    pub fn aggregate() -> Expression {
        Expression { text: "aggregate".into(), root: aggregate() }
    }

    /// Parses an expression.
    ///
    /// # Errors
    /// If the text is not a valid expression. The error names the character at which the text is wrong.
    pub fn parse(text: &str) -> Result<Expression, NotAnExpression> {
        let letters: Vec<char> = text.chars().collect();
        let mut parser = Parser { letters: &letters, at: 0, depth: 0 };
        let fail = |at, why| {
            // For a long expression, the message shows only the text around the error.
            let from = usize::saturating_sub(at, 60);
            let shown = letters[from..letters.len().min(from + 80)].iter();
            let shown = shown.map(|letter| if letter.is_control() { ' ' } else { *letter });
            NotAnExpression { text: shown.collect(), at: at - from, why }
        };
        if letters.len() > MOST {
            return Err(fail(MOST, format!("is at most {MOST} characters long")));
        }
        let root = parser.all().map_err(|(at, why)| fail(at, why))?;
        if root.is_each() {
            let why =
                "is one number for all flows: put what is each flow's into sum, mean, min, max or percentile";
            return Err(fail(0, why.into()));
        }
        Ok(Expression { text: text.into(), root })
    }

    /// Evaluates the expression for these rates of flows, in Kb/s. If the result is not a number (NaN), returns the worst possible utility.
    pub fn evaluate(&self, rates: &[u32]) -> f64 {
        match self.root.value(rates) {
            Value::One(value) if !value.is_nan() => value,
            _ => f64::NEG_INFINITY,
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text == other.text
    }
}

impl TryFrom<String> for Expression {
    type Error = NotAnExpression;

    fn try_from(text: String) -> Result<Expression, NotAnExpression> {
        Expression::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> String {
        expression.text
    }
}

fn aggregate() -> Node {
    Node::Fold(Fold::Sum, Box::new(Node::Rate))
}

enum Value {
    One(f64),
    Each(Vec<f64>),
}

impl Node {
    fn is_each(&self) -> bool {
        match self {
            Node::Rate => true,
            Node::Map(_, of) => of.is_each(),
            Node::Combine(_, sides) => sides.iter().any(Node::is_each),
            Node::Number(_) | Node::Count | Node::Fold(..) => false,
        }
    }

    fn value(&self, rates: &[u32]) -> Value {
        match self {
            Node::Number(number) => Value::One(*number),
            Node::Rate => Value::Each(rates.iter().map(|kbps| f64::from(*kbps) / 1e6).collect()),
            Node::Count => Value::One(rates.len() as f64),
            Node::Map(map, of) => match of.value(rates) {
                Value::One(value) => Value::One(map(value)),
                Value::Each(values) => Value::Each(values.into_iter().map(map).collect()),
            },
            Node::Combine(combine, sides) => match sides.each_ref().map(|side| side.value(rates)) {
                [Value::One(a), Value::One(b)] => Value::One(combine(a, b)),
                [Value::One(a), Value::Each(b)] => {
                    Value::Each(b.into_iter().map(|b| combine(a, b)).collect())
                }
                [Value::Each(a), Value::One(b)] => {
                    Value::Each(a.into_iter().map(|a| combine(a, b)).collect())
                }
                [Value::Each(a), Value::Each(b)] => {
                    Value::Each(a.into_iter().zip(b).map(|(a, b)| combine(a, b)).collect())
                }
            },
            Node::Fold(fold, of) => {
                let Value::Each(values) = of.value(rates) else {
                    unreachable!("what is folded is each flow's")
                };
                Value::One(fold.apply(values))
            }
        }
    }
}

impl Fold {
    /// Reduces the values of all flows to one number. Returns 0 if there are no values.
    fn apply(self, mut values: Vec<f64>) -> f64 {
        if values.is_empty() {
            return 0.0;
        }
        let count = values.len() as f64;
        match self {
            Fold::Sum => values.iter().sum(),
            Fold::Mean => values.iter().sum::<f64>() / count,
            Fold::Percentile(percent) => {
                let rank = (percent / 100.0 * count).ceil().clamp(1.0, count) as usize;
                *values.select_nth_unstable_by(rank - 1, f64::total_cmp).1
            }
        }
    }
}

type Parsed<T> = Result<T, (usize, String)>;

struct Parser<'a> {
    letters: &'a [char],
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn all(&mut self) -> Parsed<Node> {
        let node = self.sum()?;
        match self.next() {
            None => Ok(node),
            Some(_) => Err((self.at, "expects an operator or the end here".into())),
        }
    }

    /// Returns the next character that is not white space.
    fn next(&mut self) -> Option<char> {
        while self.letters.get(self.at).is_some_and(|letter| letter.is_whitespace()) {
            self.at += 1;
        }
        self.letters.get(self.at).copied()
    }

    fn eats(&mut self, letter: char) -> bool {
        let is_it = self.next() == Some(letter);
        self.at += usize::from(is_it);
        is_it
    }

    fn needs(&mut self, letter: char) -> Parsed<()> {
        match self.eats(letter) {
            true => Ok(()),
            false => Err((self.at, format!("expects `{letter}` here"))),
        }
    }

    fn sum(&mut self) -> Parsed<Node> {
        let mut node = self.product()?;
        loop {
            let combine: fn(f64, f64) -> f64 = match () {
                () if self.eats('+') => |a, b| a + b,
                () if self.eats('-') => |a, b| a - b,
                () => return Ok(node),
            };
            node = Node::Combine(combine, Box::new([node, self.product()?]));
        }
    }

    fn product(&mut self) -> Parsed<Node> {
        let mut node = self.factor()?;
        loop {
            let combine: fn(f64, f64) -> f64 = match () {
                () if self.eats('*') => |a, b| a * b,
                () if self.eats('/') => |a, b| a / b,
                () => return Ok(node),
            };
            node = Node::Combine(combine, Box::new([node, self.factor()?]));
        }
    }

    fn factor(&mut self) -> Parsed<Node> {
        if self.depth == DEEPEST {
            return Err((self.at, format!("is at most {DEEPEST} brackets deep")));
        }
        self.depth += 1;
        let node = match self.next() {
            Some('-') => {
                self.at += 1;
                Node::Map(|value| -value, Box::new(self.factor()?))
            }
            Some('(') => {
                self.at += 1;
                let node = self.sum()?;
                self.needs(')')?;
                node
            }
            Some(letter) if letter.is_ascii_digit() || letter == '.' => Node::Number(self.number()?),
            Some(letter) if letter.is_alphabetic() => self.name()?,
            _ => return Err((self.at, format!("expects a number, a bracket or one of {NAMES} here"))),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn taken(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let part = self.letters[self.at..].iter().take_while(|letter| is_part(**letter)).collect::<String>();
        self.at += part.chars().count();
        part
    }

    fn number(&mut self) -> Parsed<f64> {
        let from = self.at;
        let number = self.taken(|letter| letter.is_ascii_digit() || letter == '.' || letter == '_');
        let plain = number.replace('_', "");
        plain.parse().map_err(|_| (from, format!("`{number}` is no number")))
    }

    fn name(&mut self) -> Parsed<Node> {
        let from = self.at;
        let name = self.taken(|letter| letter.is_alphanumeric() || letter == '_');
        let fold = match name.as_str() {
            "rate" => return Ok(Node::Rate),
            "count" => return Ok(Node::Count),
            "aggregate" => return Ok(aggregate()),
            "tail" => return Ok(Node::Fold(Fold::Percentile(5.0), Box::new(Node::Rate))),
            "log" => return self.map(f64::ln),
            "sqrt" => return self.map(f64::sqrt),
            "sum" => Fold::Sum,
            "mean" => Fold::Mean,
            "min" => Fold::Percentile(0.0),
            "max" => Fold::Percentile(100.0),
            "percentile" => Fold::Percentile(f64::NAN),
            _ => return Err((from, format!("does not know `{name}`; there are {NAMES}"))),
        };
        self.needs('(')?;
        let fold = match fold {
            Fold::Percentile(percent) if percent.is_nan() => {
                self.next();
                let at = self.at;
                let percent = self.number()?;
                if percent > 100.0 {
                    return Err((at, "percentile takes a number from 0 to 100 first".into()));
                }
                self.needs(',')?;
                Fold::Percentile(percent)
            }
            fold => fold,
        };
        self.next();
        let inner = self.at;
        let of = self.sum()?;
        if !of.is_each() {
            return Err((inner, format!("{name} takes what is each flow's, such as `rate`")));
        }
        self.needs(')')?;
        Ok(Node::Fold(fold, Box::new(of)))
    }

    fn map(&mut self, map: fn(f64) -> f64) -> Parsed<Node> {
        self.needs('(')?;
        let of = self.sum()?;
        self.needs(')')?;
        Ok(Node::Map(map, Box::new(of)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, rates: &[u32]) -> f64 {
        Expression::parse(text).unwrap().evaluate(rates)
    }

    #[test]
    fn expressions_are_what_they_are_elsewhere() {
        let rates = [4_000_000, 1_000_000, 9_000_000, 2_000_000];
        for (text, expected) in [
            ("aggregate", 16.0),
            ("tail", 1.0),
            ("count * 2 - -1", 9.0),
            ("min(rate) + 2 * max(rate) / 3", 7.0),
            ("mean( (rate - mean(rate)) * (rate - mean(rate)) )", 9.5),
            ("sum(log(rate))", 72f64.ln()),
            ("sqrt(percentile(75, rate))", 2.0),
            ("10 - 4 - 3", 3.0),
            ("8 / 4 / 2", 1.0),
            ("1_000.5", 1000.5),
        ] {
            assert!((of(text, &rates) - expected).abs() < 1e-12, "{text}");
        }
        assert_eq!((of("tail", &[]), of("sum(rate)/count", &[])), (0.0, f64::NEG_INFINITY));
    }

    #[test]
    fn what_is_wrong_is_shown() {
        for (text, at, why) in [
            ("sum(rat)", 4, "does not know `rat`"),
            ("sum(rate", 8, "expects `)`"),
            ("aggregate +", 11, "expects a number"),
            ("rate * 2", 0, "one number for all flows"),
            ("sum(1)", 4, "sum takes what is each flow's"),
            ("percentile(rate)", 11, "is no number"),
            ("percentile(101, rate)", 11, "from 0 to 100"),
            ("1.2.3", 0, "is no number"),
            ("aggregate tail", 10, "expects an operator"),
            ("", 0, "expects a number"),
        ] {
            let wrong = Expression::parse(text).unwrap_err();
            assert!(wrong.at == at && wrong.why.contains(why), "{wrong}");
        }
        assert!(Expression::parse(&"(".repeat(200)).unwrap_err().why.contains("deep"));
        assert!(Expression::parse(&"1+".repeat(600)).unwrap_err().why.contains("long"));
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_or_refused(text in "[ -~]{0,60}|([a-z]{3,5}|[0-9(),+*/-]){0,40}") {
            match Expression::parse(&text) {
                Ok(expression) => prop_assert!(!expression.evaluate(&[1, 2, 3]).is_nan()),
                Err(wrong) => prop_assert!(!wrong.to_string().is_empty()),
            }
        }
    }
}
