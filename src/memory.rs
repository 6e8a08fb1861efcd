//! Memory, asked for before it is taken: an allocation that fails aborts the process, and the caller's
//! interpreter with it.

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
    fn reserved_room_is_not_asked_for_again() {
        let mut values = vec![1.0];
        reserve("w", &mut values, 1001).unwrap();
        let place = values.as_ptr();
        values.resize(1001, 0.0);
        assert_eq!(values.as_ptr(), place);
    }
}
