//! Constant memory: on a full budget, not a byte more after any number of examples.
//!
//! Not with the other tests of the crate from outside: its allocator counts, which in a trial took a quarter of the time of those
//! that allocate much; and it counts a whole process, so that here is one test only.

use std::alloc::System;
use std::time::Duration;

use pegasos::{
    AnyLoss, Average, Binary, Budgeted, CrammerSinger, Dense, Examples, Kernel, Loss, Maintenance,
    Multiclass, Params, Trainer,
};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CHUNK: usize = 1000;

/// Points of a board of 4 x 4 fields.
fn fill(random: &mut Pcg64, x: &mut [f32], y: &mut [u32], classes: u32) {
    for (x, y) in x.chunks_mut(2).zip(y) {
        x.fill_with(|| (random.next_u64() >> 40) as f32 / (1 << 22) as f32);
        *y = (x[0] as u32 + x[1] as u32) % classes;
    }
}

/// By how many bytes 100,000 further examples have made the process grow.
fn grown<L: Loss>(loss: L, classes: u32, maintenance: Maintenance) -> isize {
    let outputs = loss.zeros().as_ref().len();
    let kernel = Kernel::Rbf { gamma: 4.0 };
    let w = Budgeted::new(kernel, outputs, 2, Some(40), maintenance).expect("a hypothesis");
    let params = match maintenance {
        Maintenance::Projectron { .. } => Params {
            lambda: 0.0,
            schedule: pegasos::Schedule::InvScaling { eta0: 1.0, power: 0.0 },
            ..Params::default()
        },
        _ => Params { lambda: 1e-4, average: Average::Recent { window: 80 }, ..Params::default() },
    };
    let mut trainer = Trainer::new(w, loss, params).expect("parameters");
    let mut random = Pcg64::new(1, 0);
    let (mut x, mut y) = (vec![0.0; 2 * CHUNK], vec![0; CHUNK]);
    let mut learn = |chunks: usize| {
        for _ in 0..chunks {
            fill(&mut random, &mut x, &mut y, classes);
            let rows = Dense::new(&x, CHUNK, 2).expect("a matrix");
            let data = Examples::new(rows, &y, None).expect("a problem");
            trainer.run(&data, 0..CHUNK).expect("a run");
        }
    };
    learn(20);
    let region = Region::new(ALLOCATOR);
    learn(100);
    let change = region.change();
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

#[test]
fn not_a_byte_more() {
    // Until the thread that began this test has written down that it did, for which it takes memory too.
    std::thread::sleep(Duration::from_millis(200));
    for maintenance in [
        Maintenance::Remove,
        Maintenance::Random { seed: 3 },
        Maintenance::Project,
        Maintenance::Merge,
        Maintenance::Projectron { threshold: 0.01, margin: true },
    ] {
        let binary = Binary { loss: AnyLoss::Hinge, positive: 1 };
        assert_eq!(grown(binary, 2, maintenance), 0, "{maintenance:?}, two classes");
        assert_eq!(
            grown(Multiclass::CrammerSinger(CrammerSinger { classes: 3 }), 3, maintenance),
            0,
            "{maintenance:?}"
        );
    }
}
