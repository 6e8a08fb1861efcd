//! Asking memory for what will be needed; and what that depends on, which is not the same on every make.

use super::body::Lanes;

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "safe in newer compilers than the oldest we ask for")]
fn cpuid(leaf: u32, part: u32) -> core::arch::x86_64::CpuidResult {
    // SAFETY: every x86-64 processor has the instruction, and answers whatever is asked.
    unsafe { core::arch::x86_64::__cpuid_count(leaf, part) }
}

/// How many bytes the second cache of an Intel processor holds; nothing on other processors. Asked once in a process.
#[inline(always)]
pub fn second_cache_of_intel() -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        static INTEL: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
        *INTEL.get_or_init(|| {
            let name = cpuid(0, 0);
            let intel = [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes);
            (intel.as_flattened() == b"GenuineIntel").then(|| second_cache(name.eax))
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// What an Intel processor, which answers as many questions, says of its second cache: leaf 4 of "Software Developer's Manual",
/// volume 2, CPUID.
#[cfg(target_arch = "x86_64")]
fn second_cache(leaves: u32) -> usize {
    const CACHES: u32 = 4;
    // The least of those with AVX-512, for one that does not say.
    const ELSE: usize = 1 << 20;
    if leaves < CACHES {
        return ELSE;
    }
    let mut caches = (0..8).map(|part| cpuid(CACHES, part)).take_while(|c| c.eax & 0x1f != 0);
    let Some(cache) = caches.find(|c| c.eax >> 5 & 0x7 == 2) else {
        return ELSE;
    };
    let (line, parts, ways) = (cache.ebx & 0xfff, cache.ebx >> 12 & 0x3ff, cache.ebx >> 22);
    [line, parts, ways, cache.ecx].into_iter().map(|less_one| less_one as usize + 1).product()
}

/// How near the processor is asked to bring a line: to all caches, to all but the first, or past those that keep what will be
/// needed again. The numbers are those of x86-64's instruction, `_MM_HINT_T0`, `_MM_HINT_T1` and `_MM_HINT_NTA`.
const TO_STAY: i32 = 3;
const TO_THE_SECOND: i32 = 2;
const TO_BE_READ_ONCE: i32 = 0;

#[inline(always)]
fn ask<const HINT: i32, T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::_mm_prefetch;
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<HINT>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The lines of so many entries, the first so many at most.
#[inline(always)]
fn ask_range<const HINT: i32, T>(first: *const T, len: usize, lines: usize) {
    let per_line = const { if size_of::<T>() < 64 { 64 / size_of::<T>() } else { 1 } };
    let len = len.min(lines * per_line);
    let mut at = 0;
    while at < len {
        ask::<HINT, T>(first.wrapping_add(at));
        at += per_line;
    }
    // The last entry's: the first need not stand at the beginning of a line.
    ask::<HINT, T>(first.wrapping_add(len).wrapping_sub(1));
}

/// Asks for the cache line that holds `slice[at]`; a hint, so an `at` outside the slice is harmless.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], at: usize) {
    ask::<TO_STAY, T>(slice.as_ptr().wrapping_add(at));
}

/// Asks L2 for entry `at` of lane j of the block that stands behind this one; a hint, so there need be none.
#[inline(always)]
pub fn prefetch_next<S>(block: &[Lanes<S>], j: usize, at: usize) {
    let lane = block.as_ptr().wrapping_add(block.len() + j);
    ask::<TO_THE_SECOND, S>(lane.cast::<S>().wrapping_add(at));
}

/// Where parts of something stand, all of one size, for a loop that has it in other hands: they can be asked for, no more.
#[derive(Clone, Copy)]
pub struct Places {
    start: *const u8,
    bytes: usize,
}

impl Places {
    /// So many entries of `slice` each.
    pub fn of<T>(slice: &[T], entries: usize) -> Self {
        Places { start: slice.as_ptr().cast(), bytes: entries * size_of::<T>() }
    }

    /// Asks for the lines of part `i`, the first [`PREFETCH_LINES`] at most; a hint, so it need not be there.
    #[inline(always)]
    pub fn prefetch(self, i: usize) {
        let first = self.start.wrapping_add(i.wrapping_mul(self.bytes));
        // A number stands in one line.
        if self.bytes <= size_of::<f64>() {
            ask::<TO_STAY, u8>(first)
        } else {
            ask_apart(first, self.bytes)
        }
    }
}

/// [`ask_range`], not within the loop that seldom has so much.
#[inline(never)]
fn ask_apart(first: *const u8, bytes: usize) {
    ask_range::<TO_STAY, u8>(first, bytes, PREFETCH_LINES);
}

/// Asks for every cache line of `slice`, the first [`PREFETCH_LINES`] at most: past that the
/// processor's own prefetcher has seen the pattern.
#[inline(always)]
pub fn prefetch_all<T>(slice: &[T]) {
    ask_range::<TO_STAY, T>(slice.as_ptr(), slice.len(), PREFETCH_LINES);
}

/// Asks for the cache lines of so many entries from `first` on, which are not needed again soon; of long rows for the first
/// ones. A hint, so they may lie outside the slice. `beside_others` says that they are used beside much else that wants the
/// first cache.
///
/// Rows of a matrix are such. What is right for them is not the same on every make, as ratios of epochs' times show, to those
/// of a hint that has all caches keep them, over 600,000 rows of 44 words of 2^20 f32, 500,000 of 43 random columns, and
/// 500,000 of 54 dense features f32, shuffled and in blocks:
///
/// * "Non-temporal", so that the caches keep what is needed again: on an AMD EPYC (1 MB of L2) 0.87 to 0.90 and 0.93 to 1.0
///   (words), 0.87 to 0.91 (random columns), 0.94 to 0.96 (dense); 0.98 to 1.03 where all fits into L2 or L3. On an Intel Xeon
///   (2 MB of L2) 1.9 and 1.2, 1.7 and 1.2, 2.6 and 1.7: such lines come to a part of L1 alone and are gone before their use.
/// * To all caches but the first, on the Xeon: 1.01 and 0.94, 1.01 and 0.94, 1.01 and 1.02. So for sparse rows, which are
///   beside their weights.
///
/// Of long rows the processor's own prefetcher sees the pattern after a while. On the Xeon an epoch that asks for 32 lines
/// takes 0.87 and 0.80 of the time of one that asks for 8 where rows are of 345 of 2^20 columns, 0.93 and 1.0 on news20, 0.85
/// and 0.91 on 200 dense features, 0.91 and 0.89 on 784; with 16 and 64 lines none is faster by more than noise. On an EPYC
/// (512 KB of L2) 0.85 and 0.86 on 150 dense features, 0.79 and 0.84 on 200, 0.83 and 0.60 on 300, 0.92 and 0.71 on 400, where
/// these lines are all of a row; 0.98 and 0.99 on 600, 1.04 and 1.12 on 784, 1.04 and 1.10 on 1000, 1.03 and 1.09 on 2000. With
/// 16 lines sparse rows take 0.96 and 1.0 (words), 1.03 and 0.99 (random columns), 1.10 and 1.02 (news20), 1.03 and 0.99 (345
/// columns): no gain there.
#[inline(always)]
pub fn prefetch_once<T>(slice: &[T], first: usize, len: usize, beside_others: bool) {
    let first = slice.as_ptr().wrapping_add(first);
    match second_cache_of_intel() {
        None if beside_others || !is_medium::<T>(len) => {
            ask_range::<TO_BE_READ_ONCE, T>(first, len, PREFETCH_LINES)
        }
        None => ask_medium(first, len),
        Some(_) if beside_others => ask_range::<TO_THE_SECOND, T>(first, len, MORE_LINES),
        Some(_) => ask_range::<TO_STAY, T>(first, len, MORE_LINES),
    }
}

/// More than [`PREFETCH_LINES`], no more than [`MORE_LINES`].
#[inline(always)]
fn is_medium<T>(len: usize) -> bool {
    let per_line = const { 64 / size_of::<T>() };
    len > PREFETCH_LINES * per_line && len <= MORE_LINES * per_line
}

/// Not within the loop: where a row has few lines, its few instructions are those that they were.
#[inline(never)]
fn ask_medium<T>(first: *const T, len: usize) {
    ask_range::<TO_BE_READ_ONCE, T>(first, len, MORE_LINES);
}

/// Not tuned.
pub const PREFETCH_LINES: usize = 8;
/// Of rows, where it pays.
const MORE_LINES: usize = 32;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The system, where it tells, tells the same.
    #[test]
    fn the_second_cache_is_as_large_as_the_system_says() {
        let told = |name| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index2/{name}");
            std::fs::read_to_string(path).map(|text| text.trim().to_string())
        };
        let (Some(bytes), Ok(level), Ok(size)) =
            (second_cache_of_intel(), told("level"), told("size"))
        else {
            return;
        };
        assert_eq!((level, size), ("2".to_string(), format!("{}K", bytes >> 10)));
    }
}
