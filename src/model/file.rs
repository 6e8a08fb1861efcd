//! The file that a model is in: one safetensors file, with a JSON text that says what its tensors are.
//!
//! The metadata has one entry, `"pegasos"`: the text, an object whose last entry is the SHA-256 of all that stands before it;
//! another is `"checksums"`, the SHA-256 of each tensor. So damage is found before any number is believed. Reading takes
//! memory of the file's size; nothing that a file declares is taken before it was compared with what is there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
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

impl Tensor {
    fn of(name: &str, view: &TensorView<'_>) -> Result<Self, Error> {
        let numbers = numbers_of(name, view)?;
        if let Some(x) = numbers.broken() {
            return Err(broken(format!("the numbers of {name} must be finite, got {x}")));
        }
        Ok(Tensor { shape: view.shape().to_vec(), numbers })
    }
}

fn numbers_of(name: &str, view: &TensorView<'_>) -> Result<Numbers, Error> {
    let bytes = view.data();
    memory::check::<u8>("a tensor", &[bytes.len()])?;
    macro_rules! read {
        ($(($kind:ident, $of:ty, $dtype:ident)),*) => { match view.dtype() {
            $(Dtype::$dtype => {
                let (numbers, _) = bytes.as_chunks();
                Ok(Numbers::$kind(numbers.iter().map(|x| <$of>::from_le_bytes(*x)).collect()))
            })*
            other => Err(broken(format!("the tensor {name} is of a dtype that models do not have: {other:?}"))),
        } };
    }
    kinds!(read)
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
        let mut file = File::open(path).map_err(says)?;
        let about = file.metadata().map_err(says)?;
        if !about.is_file() {
            return Err(broken("it is no regular file"));
        }
        let size = usize::try_from(about.len()).unwrap_or(usize::MAX);
        memory::check::<u8>("a model file", &[size])?;
        let mut bytes = Vec::with_capacity(size);
        // One that grows meanwhile is no model file.
        Read::by_ref(&mut file).take(about.len()).read_to_end(&mut bytes).map_err(says)?;
        Content::from_bytes(&bytes)
    }

    /// What these bytes of a file hold.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let not_one = |error| broken(format!("{error}"));
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_one)?;
        let Some(text) = metadata.metadata().as_ref().and_then(|entries| entries.get(ENTRY)) else {
            return Err(broken("it is a safetensors file, but not one of ours"));
        };
        // A later version may seal in another way.
        let Seen { format } = parsed(text)?;
        if !(FIRST..=FORMAT).contains(&format) {
            return Err(broken(format!(
                "its format is {format}, this version reads formats {FIRST} to {FORMAT}"
            )));
        }
        check_seal(text)?;
        let Sums { checksums } = parsed(text)?;
        let file = SafeTensors::deserialize(bytes).map_err(not_one)?;
        let names: HashSet<&str> = file.names().into_iter().collect();
        if let Some(name) = names.iter().filter(|name| !checksums.contains_key(**name)).min() {
            return Err(broken(format!("it has a tensor {name:?} that means nothing")));
        }
        if let Some(name) = checksums.keys().filter(|name| !names.contains(&name[..])).min() {
            return Err(broken(format!("it has no tensor {name:?}")));
        }
        for (name, view) in file.iter() {
            if checksums[name] != digest(view.data()) {
                return Err(broken(format!("it is damaged: the checksum of {name} is another")));
            }
        }
        let tensors =
            file.iter().map(|(name, view)| Ok((name.to_owned(), Tensor::of(name, &view)?)));
        Ok(Content { text: text.clone(), tensors: tensors.collect::<Result<_, Error>>()? })
    }

    /// The bytes of a file that holds these tensors, and a text of these entries, with checksums.
    pub(crate) fn to_bytes(
        entries: &str,
        tensors: &BTreeMap<String, Tensor>,
    ) -> Result<Vec<u8>, Error> {
        let contents: Vec<(&str, &Tensor, Vec<u8>)> = tensors
            .iter()
            .map(|(name, tensor)| (&name[..], tensor, tensor.numbers.bytes()))
            .collect();
        let sums: BTreeMap<&str, String> =
            contents.iter().map(|(name, _, bytes)| (*name, digest(bytes))).collect();
        let sums = serde_json::to_string(&sums).map_err(|error| broken(error.to_string()))?;
        let Some(open) = entries.strip_suffix('}') else {
            return Err(broken("a text must be a JSON object"));
        };
        let open = format!("{open}, \"checksums\": {sums}");
        let text = format!("{open}{SEAL}{}\"}}", digest(format!("{open}}}").as_bytes()));
        let views = contents.iter().map(|(name, tensor, bytes)| {
            Ok((*name, TensorView::new(tensor.numbers.dtype(), tensor.shape.clone(), bytes)?))
        });
        let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>();
        views
            .and_then(|views| {
                safetensors::serialize(
                    views,
                    Some(std::iter::once((ENTRY.to_owned(), text)).collect()),
                )
            })
            .map_err(|error| {
                broken(format!("the model does not fit into a safetensors file: {error}"))
            })
    }
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| broken(format!("its text is wrong: {error}")))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses a text that was changed: its last entry is the checksum of what it would be without that.
fn check_seal(text: &str) -> Result<(), Error> {
    let end = text
        .strip_suffix("\"}")
        .and_then(|text| text.split_at_checked(text.len().checked_sub(DIGITS)?));
    let sealed = end.and_then(|(text, sum)| Some((text.strip_suffix(SEAL)?, sum)));
    match sealed {
        None => Err(broken("its text does not end with a checksum")),
        Some((text, sum)) if digest(format!("{text}}}").as_bytes()) == sum => Ok(()),
        Some(_) => Err(broken("it is damaged: its checksum is another")),
    }
}

/// Writes a file whole or not at all: to a new one in the same folder, which then takes its place. What a write that was
/// killed has left behind is removed by the next one to the same path.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A link stays one.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
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
        if entry.file_name().as_encoded_bytes().starts_with(own.as_bytes())
            && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok())
        {
            drop(std::fs::remove_file(entry.path()));
        }
    }
    Ok(())
}
