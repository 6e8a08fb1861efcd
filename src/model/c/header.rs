//! The text of a header as it grows: arrays, functions, and a comment that says what all takes.

use super::super::{Label, Model};
use crate::error::Error;
use crate::memory;

/// Bytes of arrays. So many take a compiler a minute and a gigabyte.
const MOST_BYTES: usize = 1 << 24;

/// Names in C must differ within 63 characters, of which endings such as `_thresholds_1000` take some.
const LONGEST_NAME: usize = 40;

/// Characters that a string literal of C may have.
const LONGEST_LABEL: usize = 4095;

/// Characters of a number in an array, at most.
const LONGEST_NUMBER: usize = 32;

/// Columns of a line of numbers.
const COLUMNS: usize = 120;

/// Bytes of an `unsigned short`, and what it surely holds.
pub(super) const SHORT: usize = 2;
pub(super) const MOST_SHORT: usize = 65_535;

/// A header that is being written.
pub(super) struct Header<'a> {
    name: &'a str,
    single: bool,
    macros: Vec<(&'static str, usize)>,
    arrays: String,
    functions: String,
    /// Bytes of all arrays.
    bytes: usize,
    /// Numbers on the stack.
    pub(super) stack: usize,
    /// Multiplications for a row.
    pub(super) products: usize,
    pub(super) divisions: usize,
    /// Calls of functions of `<math.h>`.
    pub(super) calls: usize,
}

/// A number in the scalar of the model.
fn literal(what: &'static str, x: f64, single: bool) -> Result<String, Error> {
    // The fewest digits that come back to the same bits.
    let (text, finite) = match single {
        true => (format!("{:?}f", x as f32), (x as f32).is_finite()),
        false => (format!("{x:?}"), x.is_finite()),
    };
    if !finite {
        let want = "within the range of the model's scalar to be written in C";
        return Err(Error::parameter(what, x, want));
    }
    Ok(text)
}

/// A string literal, of printable ASCII alone.
fn string(label: &str) -> Result<String, Error> {
    if label.contains('\0') {
        return Err(Error::parameter("a label", label, "free of zero bytes to be a string in C"));
    }
    if label.len() > LONGEST_LABEL {
        let want = "at most 4095 bytes to be a string in C";
        return Err(Error::shape("a label", want, label.len()));
    }
    let mut literal = String::from("\"");
    for byte in label.bytes() {
        match byte {
            // Two question marks may begin a trigraph.
            b'"' | b'\\' | b'?' => literal.extend(['\\', char::from(byte)]),
            b' '..=b'~' => literal.push(char::from(byte)),
            _ => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal.push('"');
    Ok(literal)
}

impl<'a> Header<'a> {
    /// An empty one, of names that begin with this one; in single precision or in double.
    pub(super) fn new(name: &'a str, single: bool) -> Result<Self, Error> {
        let sound = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.len() <= LONGEST_NAME
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !sound {
            let want = "a letter and up to 39 letters, digits and underscores, to be a name in C";
            return Err(Error::parameter("name", name, want));
        }
        Ok(Header {
            name,
            single,
            macros: Vec::new(),
            arrays: String::new(),
            functions: String::new(),
            bytes: 0,
            stack: 0,
            products: 0,
            divisions: 0,
            calls: 0,
        })
    }

    /// A macro that stands for a number.
    pub(super) fn define(&mut self, name: &'static str, value: usize) {
        self.macros.push((name, value));
    }

    /// A text in the names and the scalar of the model.
    fn filled(&self, text: &str) -> String {
        let (scalar, exp, tanh) = match self.single {
            true => ("float", "expf(", "tanhf("),
            false => ("double", "exp(", "tanh("),
        };
        // The name comes last: it could be any.
        text.replace("exp(", exp)
            .replace("tanh(", tanh)
            .replace("real", scalar)
            .replace('$', &format!("{}_", self.name.to_ascii_uppercase()))
            .replace('@', &format!("{}_", self.name))
    }

    /// A function: what it returns, its name and parameters, and what it does.
    pub(super) fn function(&mut self, of: &str, head: &str, body: &str) {
        let text = self.filled(&format!("\nstatic inline {of} @{head}\n{{{body}\n}}\n"));
        self.functions.push_str(&text);
    }

    /// Takes bytes for so many numbers of an array.
    fn take(&mut self, numbers: usize, bytes: usize) -> Result<(), Error> {
        let total = numbers.checked_mul(bytes).and_then(|more| self.bytes.checked_add(more));
        if let Some(total) = total.filter(|total| *total <= MOST_BYTES) {
            self.bytes = total;
            return memory::check::<u8>("a header", &[numbers, LONGEST_NUMBER]);
        }
        let mib = (self.bytes as f64 + numbers as f64 * bytes as f64) / f64::from(1 << 20);
        let want = "arrays of at most 16 MiB to be written in C";
        Err(Error::shape("the model", want, format_args!("{mib:.1} MiB")))
    }

    /// Bytes of a number of the scalar.
    pub(super) fn size(&self) -> usize {
        if self.single { size_of::<f32>() } else { size_of::<f64>() }
    }

    /// An array of rows, each of so many numbers of the scalar.
    pub(super) fn table(
        &mut self,
        name: &'static str,
        (n, d): (usize, usize),
        mut row: impl FnMut(usize) -> Vec<f64>,
    ) -> Result<(), Error> {
        self.take(n.saturating_mul(d), self.size())?;
        self.open("real", name, &[n, d]);
        for i in 0..n {
            self.arrays.push_str("    {\n");
            self.numbers("        ", name, row(i))?;
            self.arrays.push_str("    },\n");
        }
        self.arrays.push_str("};\n");
        Ok(())
    }

    /// A list of numbers of the scalar; `what` says of what.
    pub(super) fn list(
        &mut self,
        name: &str,
        what: &'static str,
        numbers: impl ExactSizeIterator<Item = f64>,
    ) -> Result<(), Error> {
        self.take(numbers.len(), self.size())?;
        self.open("real", name, &[numbers.len()]);
        self.numbers("    ", what, numbers)?;
        self.arrays.push_str("};\n");
        Ok(())
    }

    fn numbers(
        &mut self,
        indent: &str,
        what: &'static str,
        numbers: impl IntoIterator<Item = f64>,
    ) -> Result<(), Error> {
        let single = self.single;
        self.lines(indent, numbers.into_iter().map(|x| literal(what, x, single)))
    }

    /// A list of small whole numbers.
    pub(super) fn shorts(&mut self, name: &str, numbers: &[usize]) -> Result<(), Error> {
        self.take(numbers.len(), SHORT)?;
        self.open("unsigned short", name, &[numbers.len()]);
        self.lines("    ", numbers.iter().map(|x| Ok(x.to_string())))?;
        self.arrays.push_str("};\n");
        Ok(())
    }

    /// A number of the scalar.
    pub(super) fn constant(&mut self, name: &'static str, x: f64) -> Result<(), Error> {
        self.take(1, self.size())?;
        let text = format!("static const real @{name} = {};\n", literal(name, x, self.single)?);
        self.arrays.push_str(&self.filled(&text));
        Ok(())
    }

    fn open(&mut self, of: &str, name: &str, sizes: &[usize]) {
        let sizes: String = sizes.iter().map(|size| format!("[{size}]")).collect();
        let text = format!("static const {of} @{name}{sizes} = {{\n");
        self.arrays.push_str(&self.filled(&text));
    }

    /// What stands in an array, in lines.
    fn lines(
        &mut self,
        indent: &str,
        literals: impl Iterator<Item = Result<String, Error>>,
    ) -> Result<(), Error> {
        let mut column = 0;
        for literal in literals {
            let literal = literal?;
            if column == 0 || column + literal.len() + 2 > COLUMNS {
                self.arrays.push_str(if column == 0 { "" } else { "\n" });
                self.arrays.push_str(indent);
                column = indent.len();
            } else {
                self.arrays.push(' ');
                column += 1;
            }
            self.arrays.push_str(&literal);
            self.arrays.push(',');
            column += literal.len() + 1;
        }
        self.arrays.push('\n');
        Ok(())
    }

    /// What classes are called.
    pub(super) fn labels(&mut self, labels: &[Label]) -> Result<(), Error> {
        let (mut of, mut bytes) = ("long long", 0);
        let literals = labels.iter().map(|label| {
            bytes += size_of::<f64>();
            match label {
                Label::Bool(label) => Ok(u8::from(*label).to_string()),
                // A literal has no sign.
                Label::Int(i64::MIN) => Ok("-9223372036854775807 - 1".to_owned()),
                Label::Int(label) => Ok(label.to_string()),
                Label::Float(label) => {
                    of = "double";
                    Ok(format!("{label:?}"))
                }
                Label::Text(label) => {
                    of = "char *const";
                    bytes += label.len() + 1;
                    string(label)
                }
            }
        });
        let literals = literals.collect::<Result<Vec<_>, _>>()?;
        self.take(1, bytes)?;
        self.open(of, "labels", &[labels.len()]);
        self.lines("    ", literals.into_iter().map(Ok))?;
        self.arrays.push_str("};\n");
        Ok(())
    }

    /// The whole text; `missing` says why there are no probabilities.
    pub(super) fn finish(self, model: &Model, missing: Option<&str>) -> String {
        let Header { name, arrays, functions, bytes, products, divisions, calls, .. } = &self;
        let stack = self.stack * self.size();
        let scores = match (model.outputs(), model.pairs) {
            (_, true) => {
                "A score for each pair of classes, (0, 1), (0, 2), ...: < 0 for the second."
            }
            (1, _) => "One score, > 0 for class 1.",
            _ => "A score for each class. The largest decides.",
        };
        let probabilities = match missing {
            Some(missing) => format!(" * Probabilities: {missing}."),
            None => [
                " * void @probabilities(const real *x, real *out)",
                " *     The probability of each class.",
            ]
            .join("\n"),
        };
        let called =
            ["exp(", "expf(", "tanh(", "tanhf("].iter().any(|call| functions.contains(call));
        let math = if called { "#include <math.h>\n" } else { "" };
        let needs = if called { "<math.h> and <stddef.h>" } else { "<stddef.h>" };
        let macros: String =
            self.macros.iter().map(|(name, value)| format!("#define ${name} {value}\n")).collect();
        let more = |n: usize, what| if n > 0 { format!(", {n} {what}") } else { String::new() };
        let divisions = more(*divisions, "divisions");
        let calls = more(*calls, "calls of <math.h>");
        let version = env!("CARGO_PKG_VERSION");
        let top = format!(
            "/* A model in C99 and C++, written by pegasos {version}. It needs {needs} alone, and allocates nothing.
 *
 * int @predict(const real *x)
 *     The number of the class of a row, from 0 on; @labels[] says what classes are called.
 * void @scores(const real *x, real *out)
 *     {scores}
{probabilities}
 *
 * A row is $FEATURES finite numbers, before any scaling. `out` has room for all scores or probabilities, and
 * does not overlap with x.
 *
 * Arrays: {bytes} bytes. Stack: {stack} bytes, and what compilers add.
 * A row: {products} multiplications{divisions}{calls}.
 */
#ifndef PEGASOS_@H
#define PEGASOS_@H

{math}#include <stddef.h>

{macros}
"
        );
        let top = self.filled(&top);
        format!("{top}{arrays}{functions}\n#endif /* PEGASOS_{name}_H */\n")
    }
}
