//! What is rare in a line: long numbers, odd indices; and what is wrong with it.

use super::lines::{LONGEST_LINE, Meaning, Stop, room};
use super::number::Decimal;

/// Whether a number ends before this byte: the white space of ASCII, or what a comment begins with.
#[inline(always)]
pub(super) fn is_separator(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let separators = b" \t\n\r\x0b\x0c#";
        let mut k = 0;
        while k < separators.len() {
            table[separators[k] as usize] = true;
            k += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// What stands at `at`, up to a separator.
fn token(text: &[u8], at: usize) -> &[u8] {
    let rest = &text[at..];
    &rest[..rest.iter().position(|byte| is_separator(*byte)).unwrap_or(rest.len())]
}

/// Characters of a token that an error shows.
const SHOWN: usize = 40;

fn quoted(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(&token[..token.len().min(4 * SHOWN)]);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cold]
fn fault(at: usize, what: String) -> Stop {
    Stop::Fault { at, what }
}

/// Reads any number that ends before a separator, and says where.
#[inline(never)]
pub(super) fn long<S: Decimal>(text: &[u8], at: usize, what: &str) -> Result<(S, usize), Stop> {
    let found = S::parse(&text[at..]).map(|(value, length)| (value, at + length));
    match found.filter(|(_, end)| is_separator(text[*end])) {
        Some((value, end)) if value.is_finite() => Ok((value, end)),
        found => Err(no_number(token(text, at), at, what, found.map(|(value, _)| value))),
    }
}

/// Why a token is not the label or value that it should be, though it may be some number.
#[cold]
fn no_number<S: Decimal>(token: &[u8], at: usize, what: &str, value: Option<S>) -> Stop {
    let shown = quoted(token);
    fault(
        at,
        match value {
            Some(_) if token.iter().any(u8::is_ascii_digit) => {
                format!(
                    "the {what} {shown} is too large for a float of {} bits",
                    8 * size_of::<S>()
                )
            }
            Some(_) => format!("the {what} {shown} is not a finite number"),
            None if token.is_empty() => format!("the {what} is missing"),
            None if what == "label" && token.contains(&b':') => {
                format!("found {shown} in place of the label; a line is \"label index:value ...\"")
            }
            None => format!("the {what} {shown} is not a number"),
        },
    )
}

/// Reads an index and its colon however they are written, or passes over a query's number in front of the features.
#[cold]
pub(super) fn index(text: &[u8], at: usize, is_first: bool) -> Result<(Option<u64>, usize), Stop> {
    let token = token(text, at);
    if is_first && token.starts_with(b"qid:") {
        return Ok((None, at + token.len()));
    }
    let Some(colon) = token.iter().position(|byte| *byte == b':') else {
        return Err(fault(at, format!("found {}, want index:value", quoted(token))));
    };
    let (number, shown) = (&token[..colon], quoted(&token[..colon]));
    let digits = number.strip_prefix(b"+").unwrap_or(number);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(fault(
            at,
            match number {
                [b'-', ..] => format!("the index {shown} is negative"),
                _ => format!("the index {shown} is not a whole number"),
            },
        ));
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    match number {
        Some(number) if number < i64::MAX as u64 => Ok((Some(number), at + colon + 1)),
        _ => Err(fault(at, format!("the index {shown} is too large"))),
    }
}

/// Which index of a row cannot be, the first such.
#[cold]
pub(super) fn wrong_index(text: &[u8], line: usize, meaning: Meaning) -> Stop {
    let mut found = Vec::new();
    let mut at = line;
    while !matches!(text[at], b'\n' | b'#') {
        if is_separator(text[at]) {
            at += 1;
            continue;
        }
        let token = token(text, at);
        // Neither the label nor a query has a number in front of a colon.
        if token.contains(&b':') && !token.starts_with(b"qid:") {
            match index(text, at, false) {
                Ok((Some(number), _)) => {
                    if let Err(error) = room(&mut found, 1) {
                        return Stop::Memory(error);
                    }
                    found.push((number, at));
                }
                Ok((None, _)) => {}
                Err(stop) => return stop,
            }
        }
        at += token.len();
    }
    let bound = meaning.n_features as u64 + meaning.shift;
    let strange =
        |(number, _): &&(u64, usize)| *number >= bound || (*number == 0 && meaning.refuses_0);
    let strange = found.iter().find(strange).copied();
    found.sort_unstable();
    let repeats = found.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let repeated = repeats.map(|pair| pair[1]).min_by_key(|(_, at)| *at);
    match (strange, repeated) {
        (Some((number, at)), other) if other.is_none_or(|(_, second)| at <= second) => {
            let why = match number {
                0 if meaning.refuses_0 => "though indices count from 1".to_owned(),
                _ => format!("which is too large for n_features = {}", meaning.n_features),
            };
            fault(at, format!("the index is {number}, {why}"))
        }
        (_, Some((number, at))) => {
            fault(at, format!("the index {number} occurs twice in the line"))
        }
        (_, None) => unreachable!("the row was found to have such an index"),
    }
}

#[cold]
pub(super) fn too_long(line: usize) -> Stop {
    let longest = LONGEST_LINE;
    fault(line + longest, format!("the line is longer than {longest} bytes"))
}
