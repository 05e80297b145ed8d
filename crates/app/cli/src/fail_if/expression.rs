//! Expressions: comparisons joined by `and` and `or`. `and` binds tighter than `or`.

use super::operand::{JsonPath, Operand};
use serde_json::Value;

/// A parsed expression.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    Comparison(ComparisonOperator),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

#[derive(Debug, Clone)]
pub(super) struct ComparisonOperator {
    left: Operand,
    relation: RelationOperator,
    right: Operand,
    /// Factors that convert both sides to one unit.
    scales: [f64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelationOperator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Relations by their operators. Longer operators come first, because a shorter one may be their prefix.
const RELATIONS: [(&str, RelationOperator); 6] = [
    ("<=", RelationOperator::LessOrEqual),
    (">=", RelationOperator::GreaterOrEqual),
    ("==", RelationOperator::Equal),
    ("!=", RelationOperator::NotEqual),
    ("<", RelationOperator::Less),
    (">", RelationOperator::Greater),
];

impl Condition {
    /// Returns all paths in the expression.
    pub(super) fn paths(&self) -> Vec<&JsonPath> {
        match self {
            Condition::Comparison(ComparisonOperator { left, right, .. }) => {
                [left, right].into_iter().filter_map(Operand::path).collect()
            }
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().flat_map(Condition::paths).collect()
            }
        }
    }

    /// Returns the values that make the expression true for `result`; `None` if it is false.
    pub(super) fn holds(&self, result: &Value) -> Option<Vec<String>> {
        match self {
            Condition::Comparison(comparison) => comparison.holds(result),
            Condition::All(parts) => {
                let each: Option<Vec<_>> = parts.iter().map(|part| part.holds(result)).collect();
                each.map(|values| values.concat())
            }
            Condition::Any(parts) => parts.iter().find_map(|part| part.holds(result)),
        }
    }
}

impl ComparisonOperator {
    fn new(left: Operand, relation: RelationOperator, right: Operand) -> Result<ComparisonOperator, String> {
        let scales = Operand::scales(&left, &right)?;
        Ok(ComparisonOperator { left, relation, right, scales })
    }

    /// Returns the values of both sides if the comparison is true. A side without a value makes it true.
    fn holds(&self, result: &Value) -> Option<Vec<String>> {
        let sides = [&self.left, &self.right];
        let holds = match sides.map(|side| side.value(result)) {
            [Some(left), Some(right)] => self.relation.holds(left * self.scales[0], right * self.scales[1]),
            _ => true,
        };
        holds.then(|| sides.into_iter().filter_map(|side| side.words(result)).collect())
    }
}

impl RelationOperator {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            RelationOperator::Less => left < right,
            RelationOperator::LessOrEqual => left <= right,
            RelationOperator::Greater => left > right,
            RelationOperator::GreaterOrEqual => left >= right,
            RelationOperator::Equal => left == right,
            RelationOperator::NotEqual => left != right,
        }
    }
}

/// Parses an expression.
///
/// # Errors
/// If the expression is malformed: the text states what is expected at which place.
pub(super) fn parse(text: &str) -> Result<Condition, String> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let condition = parser.any()?;
    match parser.take() {
        None => Ok(condition),
        Some(token) => {
            Err(format!("`{}` is not expected there: join comparisons by `and` or `or`", token.text()))
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Open,
    Close,
    Relation(RelationOperator),
    Word(String),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Open => "(",
            Token::Close => ")",
            Token::Relation(relation) => {
                RELATIONS.iter().find(|(_, of)| of == relation).map_or("", |(text, _)| text)
            }
            Token::Word(word) => word,
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let relation = RELATIONS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (token, length) = match (first, relation) {
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            (_, Some((sign, relation))) => (Token::Relation(*relation), sign.len()),
            _ => {
                let end = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
                (Token::Word(rest[..end].into()), end)
            }
        };
        if length == 0 {
            return Err(format!(
                "`{first}` has no meaning there: compare by <, <=, >, >=, == or !=, and join by `and` or `or`"
            ));
        }
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "_.%+-".contains(c)
}

/// Maximum nesting of parentheses, more than anyone writes by hand.
const DEEPEST: u32 = 32;

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: u32,
}

impl Parser {
    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    /// Consumes the next token if it is this word. Returns whether it was.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.next), Some(Token::Word(next)) if next == word);
        self.next += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        Ok(Condition::Any(parts))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut parts = vec![self.term()?];
        while self.takes("and") {
            parts.push(self.term()?);
        }
        Ok(Condition::All(parts))
    }

    fn term(&mut self) -> Result<Condition, String> {
        let first = self.take();
        if first != Some(Token::Open) {
            return self.comparison(first);
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err("its parentheses are nested too deeply".into());
        }
        let inner = self.any()?;
        self.depth -= 1;
        match self.take() {
            Some(Token::Close) => Ok(inner),
            _ => Err("a closing parenthesis is missing".into()),
        }
    }

    fn comparison(&mut self, first: Option<Token>) -> Result<Condition, String> {
        let left = operand(first)?;
        let Some(Token::Relation(relation)) = self.take() else {
            return Err(format!("`{left}` is compared with nothing: write for example slowdown.p99>3"));
        };
        let right = operand(self.take())?;
        ComparisonOperator::new(left, relation, right).map(Condition::Comparison)
    }
}

fn operand(token: Option<Token>) -> Result<Operand, String> {
    match token {
        Some(Token::Word(word)) => word.parse(),
        Some(other) => Err(format!("`{}` stands where a path or a number is expected", other.text())),
        None => Err("it ends where a path or a number is expected: write for example slowdown.p99>3".into()),
    }
}
