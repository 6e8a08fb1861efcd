//! Hashed features of texts: scikit-learn's `HashingVectorizer`, to the last bit.
//!
//! * Tokens: runs of letters, digits and underscores, of two characters or more (`\b\w\w+\b`) or of any length; and n-grams of
//!   them, joined by spaces. Or n-grams of characters, of the whole text or of each of its words with a space on both sides.
//! * The column of a token is the magnitude of its MurmurHash3 (A. Appleby, 2008; 32 bits, seed 0) modulo the number of
//!   features, its sign that of the hash (K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg. Feature hashing
//!   for large scale multitask learning. ICML 2009). Columns are sorted, their counts summed, rows scaled to a norm of 1.
//! * Cost: O(length of the text) for each size of n-grams, and a sort of the tokens. Letters and digits are those of the
//!   Unicode version of a crate, which may be another than Python's: characters that one of them does not know yet.

use std::collections::HashSet;

use serde::Deserialize;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

use super::file::broken;
use crate::error::Error;

/// What tokens are.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Analyzer {
    Word,
    Char,
    CharWb,
}

/// What rows are scaled by.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Norm {
    L1,
    L2,
}

/// Turns texts to rows.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct Hasher {
    pub(super) n_features: usize,
    analyzer: Analyzer,
    ngram_range: (usize, usize),
    /// The fewest characters of a word.
    shortest: usize,
    lowercase: bool,
    stop_words: Option<HashSet<String>>,
    alternate_sign: bool,
    binary: bool,
    norm: Option<Norm>,
    single: bool,
}

impl Hasher {
    /// Refuses one that makes no rows.
    pub(super) fn check(&self) -> Result<(), Error> {
        let (from, to) = self.ngram_range;
        let sound = (1..1 << 31).contains(&self.n_features) && self.shortest > 0;
        if !sound || from == 0 || from > to {
            return Err(broken(
                "a HashingVectorizer must have 1 to 2^31 - 1 features, and n-grams and words of 1 or more",
            ));
        }
        Ok(())
    }

    /// Whether rows are in single precision.
    pub(super) fn is_single(&self) -> bool {
        self.single
    }

    /// Appends the columns that are not 0 of a text, in rising order, and their values.
    pub(super) fn hash(&self, text: &str, columns: &mut Vec<i64>, values: &mut Vec<f64>) {
        let lower = if self.lowercase { text.to_lowercase() } else { String::new() };
        let text = if self.lowercase { &lower } else { text };
        let mut found: Vec<(u32, f64)> = Vec::new();
        let mut add = |token: &str| found.push(self.place(token));
        match self.analyzer {
            Analyzer::Word => self.words(text, &mut add),
            Analyzer::Char => self.characters(text, &mut add),
            Analyzer::CharWb => self.characters_of_words(text, &mut add),
        }
        found.sort_unstable_by_key(|(column, _)| *column);
        let start = values.len();
        for same in found.chunk_by(|a, b| a.0 == b.0) {
            columns.push(same[0].0.into());
            values.push(if self.binary { 1.0 } else { same.iter().map(|(_, sign)| sign).sum() });
        }
        self.scale(&mut values[start..]);
    }

    fn place(&self, token: &str) -> (u32, f64) {
        let (column, sign) = column_and_sign(token.as_bytes(), self.n_features as u32);
        (column, if self.alternate_sign { sign } else { 1.0 })
    }

    fn scale(&self, row: &mut [f64]) {
        let sum = match self.norm {
            None => return,
            Some(Norm::L1) => row.iter().map(|x| x.abs()).sum::<f64>(),
            Some(Norm::L2) => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
        };
        if sum > 0.0 {
            let round = |x: f64| if self.single { f64::from(x as f32) } else { x };
            row.iter_mut().for_each(|x| *x = round(*x / sum));
        }
    }

    fn words(&self, text: &str, add: &mut dyn FnMut(&str)) {
        let long = |word: &&str| word.chars().nth(self.shortest - 1).is_some();
        let said = |word: &&str| self.stop_words.as_ref().is_none_or(|stop| !stop.contains(*word));
        let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
        let words: Vec<&str> = words.filter(long).filter(said).collect();
        let (from, to) = self.ngram_range;
        for n in from..=to.min(words.len()) {
            for gram in words.windows(n) {
                if n == 1 { add(gram[0]) } else { add(&gram.join(" ")) }
            }
        }
    }

    fn characters(&self, text: &str, add: &mut dyn FnMut(&str)) {
        let text = narrow(text);
        let starts = starts_of(&text);
        let (from, to) = self.ngram_range;
        for n in from..=to.min(starts.len() - 1) {
            for ends in starts.windows(n + 1) {
                add(&text[ends[0]..ends[n]]);
            }
        }
    }

    fn characters_of_words(&self, text: &str, add: &mut dyn FnMut(&str)) {
        let (from, to) = self.ngram_range;
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            let word = format!(" {word} ");
            let starts = starts_of(&word);
            let length = starts.len() - 1;
            for n in from..=to {
                for ends in starts.windows(n.min(length) + 1) {
                    add(&word[ends[0]..ends[n.min(length)]]);
                }
                // A short word counts once.
                if n >= length {
                    break;
                }
            }
        }
    }
}

/// The column of a name among so many features, and the sign that goes with it.
pub(crate) fn column_and_sign(name: &[u8], n_features: u32) -> (u32, f64) {
    let hash = murmur3(name) as i32;
    (hash.unsigned_abs() % n_features, if hash < 0 { -1.0 } else { 1.0 })
}

/// Where the characters of a text begin, and its end.
fn starts_of(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

/// What Python's `\w` matches: letters, numbers and underscores, but no marks.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    use Category::{
        DecimalNumber, LetterNumber, LowercaseLetter, ModifierLetter, OtherLetter, OtherNumber,
        TitlecaseLetter, UppercaseLetter,
    };
    matches!(
        get_general_category(c),
        UppercaseLetter
            | LowercaseLetter
            | TitlecaseLetter
            | ModifierLetter
            | OtherLetter
            | DecimalNumber
            | LetterNumber
            | OtherNumber
    )
}

/// What Python's `\s` matches: the separators of information, too.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// The text with one space for every run of two spaces or more.
fn narrow(text: &str) -> String {
    let mut narrow = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_space) {
        narrow.push_str(&rest[..at]);
        let after = rest[at..].trim_start_matches(is_space);
        let run = &rest[at..rest.len() - after.len()];
        narrow.push_str(if run.chars().nth(1).is_some() { " " } else { run });
        rest = after;
    }
    narrow + rest
}

/// MurmurHash3 of 32 bits, seed 0.
fn murmur3(bytes: &[u8]) -> u32 {
    fn mixed(k: u32) -> u32 {
        k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
    }
    let (words, tail) = bytes.as_chunks();
    let hash = words.iter().fold(0_u32, |hash, word| {
        let hash = hash ^ mixed(u32::from_le_bytes(*word));
        hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let last = tail.iter().rev().fold(0, |last, byte| last << 8 | u32::from(*byte));
    let mut hash = hash ^ mixed(last) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
