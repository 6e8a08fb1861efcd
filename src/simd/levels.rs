//! The levels of instructions, the choice between them, and the macro that makes an operation of a body.

use std::sync::atomic::{AtomicU8, Ordering};

/// Each has the instructions of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    Baseline = 1,
    Avx2,
    Avx512,
}

/// The level in force, 0 until first asked for. Never above what the processor has: every `unsafe`
/// call of an operation leans on this.
static LEVEL: AtomicU8 = AtomicU8::new(0);

#[inline(always)]
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = super::tests::LEVEL.get() {
        return level;
    }
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Baseline,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => choose(),
    }
}

#[cold]
fn choose() -> Level {
    let asked = match std::env::var("PEGASOS_SIMD").as_deref() {
        Ok("baseline") => Level::Baseline,
        Ok("avx2") => Level::Avx2,
        _ => Level::Avx512,
    };
    let level = asked.min(best());
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// The highest level that the processor has.
pub fn best() -> Level {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw");
        return if wide { Level::Avx512 } else { Level::Avx2 };
    }
    Level::Baseline
}

/// Makes operations of bodies: of a table of traits, each for the scalars that its `where` names,
///
/// * in `at`, a module for each level with these traits once more. Their methods run the bodies, compiled for the
///   level, and are unsafe as the processor must have it; they are provided, so that an implementation may have its
///   own way with some;
/// * the traits as they stand in the table, implemented by a choice between the levels.
macro_rules! operations {
    ($($table:tt)*) => {
        pub mod at {
            level! { baseline, FMA: false, REGISTER: 16, #[inline(never)]; $($table)* }
            #[cfg(target_arch = "x86_64")]
            level! { avx2, FMA: true, REGISTER: 32, #[target_feature(enable = "avx2,fma")]; $($table)* }
            #[cfg(target_arch = "x86_64")]
            level! {
                avx512, FMA: true, REGISTER: 64,
                #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512dq,avx512bw")]; $($table)*
            }
            #[cfg(not(target_arch = "x86_64"))]
            pub use {baseline as avx2, baseline as avx512};
        }
        entries! { $($table)* }
    };
}

/// The module of a level: what it has, the attribute that compiles a function for it; and the table.
macro_rules! level {
    (
        $level:ident, FMA: $fma:literal, REGISTER: $register:literal, #[$compiled:meta];
        $(
            $(#[$_about:meta])*
            pub trait $trait:ident $(<$v:ident>)?: Sized $(+ $_super:ident<$_of:ident>)* where Self: $scalar:path {$(
                $(#[$_what:meta])*
                fn $name:ident $(<$i:ident: $index:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)?;
            )*}
        )*
    ) => {
        pub mod $level {
            use super::super::*;

            #[derive(Clone, Copy)]
            struct Here;
            impl float::Processor for Here {
                const FMA: bool = $fma;
                const REGISTER: usize = $register;
            }
            $(pub trait $trait $(<$v: Float>)?: $scalar {$(
                #[$compiled]
                unsafe fn $name $(<$i: $index>)? ($($arg: $ty),*) $(-> $out)? {
                    body::$name(Here, $($arg),*)
                }
            )*})*
        }
    };
}

/// What callers see: the table as it stands, and the choice of a level.
macro_rules! entries {
    (
        $(
            $(#[$about:meta])*
            pub trait $trait:ident $(<$v:ident>)?: Sized $(+ $super:ident<$of:ident>)* where Self: $scalar:path {$(
                $(#[$what:meta])*
                fn $name:ident $(<$i:ident: $index:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)?;
            )*}
        )*
    ) => {
        $(
            $(#[$about])*
            pub trait $trait $(<$v>)?: Sized $(+ $super<$of>)* {$(
                $(#[$what])*
                fn $name $(<$i: $index>)? ($($arg: $ty),*) $(-> $out)?;
            )*}

            impl<S, $($v: Float)?> $trait $(<$v>)? for S
            where
                S: at::avx2::$trait $(<$v>)? + at::avx512::$trait $(<$v>)? $(+ $super<$of>)*,
            {$(
                #[inline(always)]
                fn $name $(<$i: $index>)? ($($arg: $ty),*) $(-> $out)? {
                    match level() {
                        // SAFETY: the level in force is not above `best()`: `choose` and the tests see to it.
                        Level::Avx512 => unsafe { at::avx512::$trait::$name($($arg),*) },
                        // SAFETY: as above.
                        Level::Avx2 => unsafe { at::avx2::$trait::$name($($arg),*) },
                        // SAFETY: the baseline asks for nothing.
                        Level::Baseline => unsafe { at::baseline::$trait::$name($($arg),*) },
                    }
                }
            )*}
        )*
    };
}
