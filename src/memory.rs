//! Memory, asked for before it is taken: an allocation that fails aborts the process, and the caller's
//! interpreter with it.

#[cfg(target_os = "linux")]
use std::ops::Range;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
#[cfg(target_os = "linux")]
use memmap2::{Advice, MmapMut};

use crate::error::Error;

/// From so many bytes on the system is asked, too, how many it has left: Linux promises more than there is.
const LARGE: usize = 1 << 30;

/// Less than this is taken without asking.
const SMALL: usize = 1 << 16;

/// Refuses what needs a product of `sizes` entries of type `T` that there is no room for now. `what` says for
/// whom. Costs a system call or two; holds for what is taken next.
pub(crate) fn check<T>(what: &'static str, sizes: &[usize]) -> Result<(), Error> {
    let bytes = sizes.iter().try_fold(size_of::<T>().max(1), |product, n| product.checked_mul(*n));
    match bytes {
        Some(bytes) if bytes <= SMALL || has_room(bytes) => Ok(()),
        _ => Err(Error::memory(what, size_of::<T>(), sizes)),
    }
}

fn has_room(bytes: usize) -> bool {
    let enough = bytes < LARGE || available().is_none_or(|available| bytes < available);
    enough && Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// How many bytes can be taken without driving others out, where the system tells.
fn available() -> Option<usize> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// Zeros, a product of `sizes` of them, if there is room.
pub(crate) fn zeros<T: Clone + Default>(
    what: &'static str,
    sizes: &[usize],
) -> Result<Vec<T>, Error> {
    check::<T>(what, sizes)?;
    Ok(vec![T::default(); sizes.iter().product()])
}

/// Bytes of a large page.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 21;

/// Zeros at first, of a fixed number, for what is read here and there: in large pages, where the system has some and they
/// are filled. The processor finds its way in these at once, and the system hands them out sooner than many small ones. In
/// trials on an Intel Xeon dual ascent with kernels took 0.87 to 1.0 of the time.
#[derive(Debug)]
pub(crate) struct Slab<T>(Store<T>);

#[derive(Debug)]
enum Store<T> {
    Small(Vec<T>),
    /// Where in the map they stand; and how to make those of them: who clones need not know that these are plain numbers.
    #[cfg(target_os = "linux")]
    Large(MmapMut, Range<usize>, fn(&[u8]) -> Vec<T>),
}

impl<T: Pod + Default> Slab<T> {
    /// A product of `sizes` of them, if there is room.
    pub fn new(what: &'static str, sizes: &[usize]) -> Result<Self, Error> {
        check::<T>(what, sizes)?;
        let store = Store::new(sizes.iter().product());
        store.map(Slab).ok_or_else(|| Error::memory(what, size_of::<T>(), sizes))
    }
}

impl<T: Pod + Default> Store<T> {
    #[cfg(target_os = "linux")]
    fn new(len: usize) -> Option<Self> {
        let bytes = len * size_of::<T>();
        let pages = bytes / PAGE;
        if pages == 0 {
            return Some(Store::Small(vec![T::default(); len]));
        }
        // A large page begins at a multiple of its size, a map anywhere. What nobody touches takes no memory.
        let map = MmapMut::map_anon(bytes.checked_add(PAGE)?).ok()?;
        let start = map.as_ptr().align_offset(PAGE).min(PAGE);
        // Who has none says so, and small ones do. What would not fill the last one has small ones, too.
        let _ = map.advise_range(Advice::HugePage, start, pages * PAGE);
        let to_vec = |bytes: &[u8]| bytemuck::cast_slice(bytes).to_vec();
        Some(Store::Large(map, start..start + bytes, to_vec))
    }

    #[cfg(not(target_os = "linux"))]
    fn new(len: usize) -> Option<Self> {
        Some(Store::Small(vec![T::default(); len]))
    }
}

impl<T: Pod> Deref for Slab<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Store::Small(values) => values,
            #[cfg(target_os = "linux")]
            Store::Large(map, own, _) => bytemuck::cast_slice(&map[own.clone()]),
        }
    }
}

impl<T: Pod> DerefMut for Slab<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Store::Small(values) => values,
            #[cfg(target_os = "linux")]
            Store::Large(map, own, _) => bytemuck::cast_slice_mut(&mut map[own.clone()]),
        }
    }
}

/// A copy has small pages.
impl<T: Clone> Clone for Slab<T> {
    fn clone(&self) -> Self {
        Slab(Store::Small(match &self.0 {
            Store::Small(values) => values.clone(),
            #[cfg(target_os = "linux")]
            Store::Large(map, own, to_vec) => to_vec(&map[own.clone()]),
        }))
    }
}

/// Makes sure that `vec` can grow to so many entries without asking for memory.
pub(crate) fn reserve<T>(what: &'static str, vec: &mut Vec<T>, want: usize) -> Result<(), Error> {
    if want <= vec.capacity() {
        return Ok(());
    }
    let more = want - vec.len();
    // As it would grow by itself, so that few calls do; and if there is room for just what is wanted, that.
    let doubled = want.max(vec.capacity().saturating_mul(2));
    if check::<T>(what, &[doubled]).is_ok() && vec.try_reserve(more).is_ok() {
        return Ok(());
    }
    check::<T>(what, &[want])?;
    vec.try_reserve_exact(more).map_err(|_| Error::memory(what, size_of::<T>(), &[want]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused() {
        assert!(zeros::<f64>("w", &[10, 10]).is_ok_and(|zeros| zeros.len() == 100));
        for sizes in [&[usize::MAX][..], &[1 << 40, 1 << 40], &[1 << 50], &[isize::MAX as usize]] {
            let error = zeros::<f64>("w", sizes).unwrap_err();
            assert!(error.to_string().starts_with("w must fit into memory, got "), "{error}");
            assert!(reserve("w", &mut Vec::<f64>::new(), sizes[0]).is_err());
        }
        assert!(zeros::<f64>("w", &[0, 1 << 62]).is_ok_and(|zeros| zeros.is_empty()));
    }

    #[test]
    fn slabs_of_any_size_are_zeros_and_copied() {
        for len in [0, 1, 1000, (1 << 18) - 1, 1 << 18, (1 << 20) + 12_345] {
            let mut slab = Slab::<f64>::new("values", &[len]).expect("room");
            assert!(slab.len() == len && slab.iter().all(|value| *value == 0.0));
            slab.iter_mut().enumerate().for_each(|(i, value)| *value = i as f64);
            let copy = slab.clone();
            slab.fill(0.0);
            assert!(copy.len() == len && copy.iter().enumerate().all(|(i, v)| *v == i as f64));
        }
        assert!(Slab::<f32>::new("values", &[1 << 50]).is_err());
    }

    #[test]
    fn reserved_room_is_not_asked_for_again() {
        let mut values = vec![1.0];
        reserve("w", &mut values, 1001).unwrap();
        let place = values.as_ptr();
        values.resize(1001, 0.0);
        assert_eq!(values.as_ptr(), place);
    }
}
