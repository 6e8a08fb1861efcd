//! What classes are called.

use std::fmt::Display;

/// What a class is called.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Label {
    /// Of NumPy's booleans.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any finite number.
    Float(f64),
    /// A word.
    Text(String),
}

impl Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Bool(label) => label.fmt(f),
            Label::Int(label) => label.fmt(f),
            Label::Float(label) => write!(f, "{label:?}"),
            Label::Text(label) => label.fmt(f),
        }
    }
}

impl Label {
    /// The order that Python sorts labels of one kind in; kinds one after the other.
    pub(super) fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Label::Float(a), Label::Float(b)) => a.total_cmp(b),
            _ => self.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal),
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Label::Bool(label) => (*label).into(),
            Label::Int(label) => (*label).into(),
            Label::Float(label) => (*label).into(),
            Label::Text(label) => label.clone().into(),
        }
    }
}

macro_rules! numbers {
    ($kind:ident: $($number:ty)*) => {$(
        impl From<$number> for Label {
            fn from(label: $number) -> Self {
                Label::$kind(label.into())
            }
        }
    )*};
}

// Not u64 and usize, of which an i64 cannot hold all.
numbers!(Int: i8 i16 i32 i64 u8 u16 u32);
numbers!(Float: f32 f64);

impl From<bool> for Label {
    fn from(label: bool) -> Self {
        Label::Bool(label)
    }
}

impl From<String> for Label {
    fn from(label: String) -> Self {
        Label::Text(label)
    }
}

impl From<&str> for Label {
    fn from(label: &str) -> Self {
        Label::Text(label.to_owned())
    }
}

impl From<&Label> for Label {
    fn from(label: &Label) -> Self {
        label.clone()
    }
}
