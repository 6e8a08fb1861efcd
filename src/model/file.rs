//! The file that a model is in: one safetensors file, with a JSON text that says what its tensors are.
//!
//! The metadata has one entry, `"pegasos"`: the text, an object whose last entry is the SHA-256 of all that stands before it;
//! another is `"checksums"`, the SHA-256 of each tensor. So damage is found before any number is believed. The header is read
//! first, then one tensor after the other, each straight to where it stays. Nothing that a file declares is taken before it
//! was compared with the file's size: one that is refused has taken no more memory than that, and 64 MB.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind};
use crate::memory;

/// The number of the format that is written, and the first that is read.
pub(crate) const FORMAT: u64 = 5;
const FIRST: u64 = 4;

/// The entry of the metadata.
const ENTRY: &str = "pegasos";

/// What comes before the checksum at the end of the text.
const SEAL: &str = ", \"sha256\": \"";

/// Hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// What a file that is refused may take beside its own size, in bytes.
const ROOM: u64 = 64 << 20;

/// Bytes of a tensor that are read at a time.
const PIECE: usize = 1 << 16;

/// The numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

/// Calls a macro with the kinds of [`Numbers`]: the variant, the type, and what safetensors calls it.
macro_rules! kinds {
    ($do:ident) => {
        $do!((F32, f32, F32), (F64, f64, F64), (I64, i64, I64), (U32, u32, U32), (U64, u64, U64))
    };
}

impl Numbers {
    fn bytes(&self) -> Vec<u8> {
        macro_rules! bytes {
            ($(($kind:ident, $of:ty, $_:ident)),*) => { match self {
                $(Numbers::$kind(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),)*
            } };
        }
        kinds!(bytes)
    }

    fn dtype(&self) -> Dtype {
        macro_rules! dtype {
            ($(($kind:ident, $_:ty, $dtype:ident)),*) => { match self {
                $(Numbers::$kind(_) => Dtype::$dtype,)*
            } };
        }
        kinds!(dtype)
    }

    /// In bytes.
    fn size(&self) -> usize {
        macro_rules! size {
            ($(($kind:ident, $_:ty, $__:ident)),*) => { match self {
                $(Numbers::$kind(values) => size_of_val(&values[..]),)*
            } };
        }
        kinds!(size)
    }

    /// The first number that is not finite.
    fn broken(&self) -> Option<f64> {
        match self {
            Numbers::F32(values) => values.iter().find(|x| !x.is_finite()).map(|x| f64::from(*x)),
            Numbers::F64(values) => values.iter().find(|x| !x.is_finite()).copied(),
            _ => None,
        }
    }
}

/// Numbers, and the shape of the array that they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
}

/// As bytes one tensor at a time: all of them beside the file would take as much memory again.
impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        self.numbers.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.numbers.bytes().into()
    }

    fn data_len(&self) -> usize {
        self.numbers.size()
    }
}

/// What is wrong with a model, or with its file.
pub(crate) fn broken(what: impl Into<String>) -> Error {
    ErrorKind::File { what: what.into() }.into()
}

/// What a file holds: a text, and tensors by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) text: String,
    pub(crate) tensors: BTreeMap<String, Tensor>,
}

/// What must be known of a text before the rest of it is believed.
#[derive(Deserialize)]
struct Seen {
    format: u64,
}

#[derive(Deserialize)]
struct Sums {
    checksums: HashMap<String, String>,
}

impl Content {
    /// What is in this file.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let says = |error: std::io::Error| {
            Error::from(ErrorKind::Io { path: path.into(), what: error.to_string() })
        };
        // Before it is opened, as that takes forever where it is a pipe.
        if !std::fs::metadata(path).map_err(says)?.is_file() {
            return Err(broken("it is no regular file"));
        }
        let from = File::open(path).map_err(says)?;
        let left = from.metadata().map_err(says)?.len();
        Content::from_source(Source { from, left, path })
    }

    /// What these bytes of a file hold.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Content::from_source(Source::of(bytes))
    }

    fn from_source(mut source: Source<'_, impl Read>) -> Result<Self, Error> {
        let (text, infos) = source.header()?;
        // A later version may seal in another way.
        let Seen { format } = parsed(&text)?;
        if !(FIRST..=FORMAT).contains(&format) {
            return Err(broken(format!(
                "its format is {format}, this version reads formats {FIRST} to {FORMAT}"
            )));
        }
        check_seal(&text)?;
        let Sums { mut checksums } = parsed(&text)?;
        let names: HashSet<&str> = infos.iter().map(|(name, _)| &name[..]).collect();
        if let Some(name) = names.iter().filter(|name| !checksums.contains_key(**name)).min() {
            return Err(broken(format!("it has a tensor {name:?} that means nothing")));
        }
        if let Some(name) = checksums.keys().filter(|name| !names.contains(&name[..])).min() {
            return Err(broken(format!("it has no tensor {name:?}")));
        }
        let mut tensors = BTreeMap::new();
        for (name, info) in infos {
            let (numbers, digest) = source.numbers(&name, &info)?;
            if checksums.remove(&name) != Some(digest) {
                return Err(broken(format!("it is damaged: the checksum of {name} is another")));
            }
            if let Some(x) = numbers.broken() {
                return Err(broken(format!("the numbers of {name} must be finite, got {x}")));
            }
            tensors.insert(name, Tensor { shape: info.shape, numbers });
        }
        Ok(Content { text, tensors })
    }

    /// The bytes of a file that holds these tensors, and a text of these entries, with checksums.
    pub(crate) fn to_bytes(
        entries: &str,
        tensors: &BTreeMap<String, Tensor>,
    ) -> Result<Vec<u8>, Error> {
        let sums: BTreeMap<&str, String> =
            tensors.iter().map(|(name, tensor)| (&name[..], digest(&tensor.data()))).collect();
        let sums = serde_json::to_string(&sums).map_err(|error| broken(error.to_string()))?;
        let Some(open) = entries.strip_suffix('}') else {
            return Err(broken("a text must be a JSON object"));
        };
        let open = format!("{open}, \"checksums\": {sums}");
        let text = format!("{open}{SEAL}{}\"}}", sealing(&open));
        let text = Some(std::iter::once((ENTRY.to_owned(), text)).collect());
        let bytes = safetensors::serialize(tensors, text).map_err(|error| {
            broken(format!("the model does not fit into a safetensors file: {error}"))
        })?;
        // What is written can be read.
        let fits = Source::of(&bytes).header();
        fits.map_err(|_| {
            broken("the model has more classes or names than a file of its size may")
        })?;
        Ok(bytes)
    }
}

/// A file, or its bytes, from which so many are left to be read.
struct Source<'a, R> {
    from: R,
    left: u64,
    path: &'a Path,
}

impl<'a> Source<'a, &'a [u8]> {
    fn of(bytes: &'a [u8]) -> Self {
        Source { from: bytes, left: bytes.len() as u64, path: Path::new("") }
    }
}

impl<R: Read> Source<'_, R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(ends_early)?;
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            // It has become shorter meanwhile.
            std::io::ErrorKind::UnexpectedEof => ends_early(),
            _ => ErrorKind::Io { path: self.path.into(), what: error.to_string() }.into(),
        })
    }

    /// The text, and the tensors in the order that they are stored in.
    fn header(&mut self) -> Result<(String, Vec<(String, TensorInfo)>), Error> {
        let size = self.left;
        let mut len = [0; 8];
        self.fill(&mut len)?;
        let len = u64::from_le_bytes(len);
        if len > self.left {
            return Err(broken(format!("its header is of {len} bytes, there are {}", self.left)));
        }
        // The header, the text in it, and the room where that is unescaped.
        check_room(size, len.saturating_mul(3))?;
        let mut header = memory::zeros::<u8>("the header of a model file", &[len as usize])?;
        self.fill(&mut header)?;
        let header =
            String::from_utf8(header).map_err(|error| broken(format!("its header: {error}")))?;
        // What is said of a tensor takes half of what as many values of any kind may.
        check_room(size, 3 * len + cost(&header) / 2)?;
        let metadata: Metadata = serde_json::from_str(&header)
            .map_err(|error| broken(format!("its header is wrong: {error}")))?;
        drop(header);
        if metadata.data_len() as u64 != self.left {
            return Err(broken(format!(
                "its tensors are of {} bytes, there are {}",
                metadata.data_len(),
                self.left
            )));
        }
        let Some(text) = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY)) else {
            return Err(broken("it is a safetensors file, but not one of ours"));
        };
        // A character of a text that is not all ASCII may take four bytes in Python.
        let wide = if text.is_ascii() { 0 } else { 4 * text.len() as u64 };
        check_room(size, cost(text) + wide)?;
        let names = metadata.offset_keys().into_iter();
        let infos = names.filter_map(|name| metadata.info(&name).cloned().map(|info| (name, info)));
        Ok((text.clone(), infos.collect()))
    }

    /// The numbers of the next tensor, and their checksum.
    fn numbers(&mut self, name: &str, info: &TensorInfo) -> Result<(Numbers, String), Error> {
        let len = info.data_offsets.1 - info.data_offsets.0;
        let mut sha = Sha256::new();
        macro_rules! read {
            ($(($kind:ident, $of:ty, $dtype:ident)),*) => { match info.dtype {
                $(Dtype::$dtype => {
                    Numbers::$kind(self.stream(len, &mut sha, <$of>::from_le_bytes)?)
                })*
                other => {
                    return Err(broken(format!(
                        "the tensor {name} is of a dtype that models do not have: {other:?}"
                    )));
                }
            } };
        }
        let numbers = kinds!(read);
        Ok((numbers, hexadecimal(&sha.finalize())))
    }

    fn stream<const N: usize, T>(
        &mut self,
        len: usize,
        sha: &mut Sha256,
        number: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut numbers = Vec::new();
        memory::reserve("a tensor", &mut numbers, len / N)?;
        let mut piece = [0; PIECE];
        let mut left = len;
        while left > 0 {
            let piece = &mut piece[..left.min(PIECE)];
            self.fill(piece)?;
            sha.update(&*piece);
            numbers.extend(piece.as_chunks().0.iter().copied().map(number));
            left -= piece.len();
        }
        Ok(numbers)
    }
}

fn ends_early() -> Error {
    broken("it ends before its time")
}

/// Refuses what takes more than so large a file may.
fn check_room(size: u64, bytes: u64) -> Result<(), Error> {
    match bytes <= size.saturating_add(ROOM) {
        true => Ok(()),
        false => Err(broken(format!(
            "its header would take {} MB of memory, more than the file and {} MB",
            bytes >> 20,
            ROOM >> 20
        ))),
    }
}

/// What the values of a JSON text take once it is parsed, here or in Python, at most, in bytes: as measured, by the
/// characters that stand between them.
fn cost(text: &str) -> u64 {
    let (mut bytes, mut quoted, mut escaped) = (0, false, false);
    for byte in text.bytes() {
        if byte == b'"' && !escaped {
            quoted = !quoted;
            bytes += 20;
        }
        escaped = quoted && byte == b'\\' && !escaped;
        if !quoted {
            bytes += match byte {
                b'{' => 640,
                b'[' => 160,
                b':' => 96,
                b',' => 64,
                _ => 0,
            };
        }
    }
    bytes
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| broken(format!("its text is wrong: {error}")))
}

fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum of a text that was open at its end when that was added.
fn sealing(open: &str) -> String {
    hexadecimal(&Sha256::new().chain_update(open).chain_update("}").finalize())
}

/// Refuses a text that was changed: its last entry is the checksum of what it would be without that.
fn check_seal(text: &str) -> Result<(), Error> {
    let end = text
        .strip_suffix("\"}")
        .and_then(|text| text.split_at_checked(text.len().checked_sub(DIGITS)?));
    let sealed = end.and_then(|(text, sum)| Some((text.strip_suffix(SEAL)?, sum)));
    match sealed {
        None => Err(broken("its text does not end with a checksum")),
        Some((text, sum)) if sealing(text) == sum => Ok(()),
        Some(_) => Err(broken("it is damaged: its checksum is another")),
    }
}

/// Writes a file whole or not at all: to a new one in the same folder, which then takes its place. What a write that was
/// killed has left behind is removed by the next one to the same path. What is no regular file, such as a pipe, is written to
/// as it stands.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A link stays one.
    let path = &behind_links(path);
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let own = format!(
        ".pegasos-{}-",
        &digest(path.file_name().unwrap_or_default().as_encoded_bytes())[..16]
    );
    forget_killed(folder, &own)?;
    let (temporary, mut file) = create(folder, &own)?;
    let written = (|| {
        file.write_all(bytes)?;
        if let Ok(about) = path.metadata() {
            file.set_permissions(about.permissions())?;
        }
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // That it could not be written says more than that what was written stays.
        drop(std::fs::remove_file(&temporary));
    }
    written
}

/// Links that are followed one after the other, as many as Linux does.
const MOST_LINKS: usize = 40;

/// Where links lead, whether there is anything or not.
fn behind_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let Ok(target) = path.read_link() else {
                break;
            };
            path = path.parent().unwrap_or(Path::new("")).join(target);
        }
        path
    })
}

/// A new file that is locked while somebody writes to it.
fn create(folder: &Path, own: &str) -> std::io::Result<(PathBuf, File)> {
    for attempt in 0_u32.. {
        let nanoseconds =
            std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
        let path = folder.join(format!(
            "{own}{:08x}{:016x}",
            std::process::id(),
            nanoseconds.wrapping_add(attempt.into())
        ));
        let file = match File::create_new(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        file.lock()?;
        // Before it was locked somebody may have taken it for one whose writer was killed.
        if path.exists() {
            return Ok((path, file));
        }
    }
    unreachable!("numbers do not end")
}

/// Removes files of such names that nobody writes to.
fn forget_killed(folder: &Path, own: &str) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(own.as_bytes()) {
            continue;
        }
        // Locked until it is gone, so that whoever has just made it and waits sees that.
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            drop(std::fs::remove_file(entry.path()));
        }
    }
    Ok(())
}
