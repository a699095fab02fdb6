//! How many cores code in a sandbox takes itself to have.
//!
//! Libraries count the host's cores, whatever share of them a sandbox has, and start a thread for each: on a large host that is slower
//! than one thread, and each takes memory. What reads these variables is told of the share instead.

/// Read by what starts threads: OpenMP and what stands on it, BLAS libraries, numexpr, numba, joblib, polars, Rust's rayon, Julia, Go, and
/// Python itself (3.13).
const COUNTS: [&str; 11] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "JULIA_NUM_THREADS",
    "GOMAXPROCS",
    "PYTHON_CPU_COUNT",
];

/// The variables of a sandbox that has so many cores, of which it may be a part.
pub(super) fn thread_counts(cpu: f64) -> impl Iterator<Item = (&'static str, String)> {
    let cores = format!("{:.0}", cpu.ceil().max(1.0));
    COUNTS.into_iter().map(move |name| (name, cores.clone()))
}

#[cfg(test)]
mod tests {
    use super::thread_counts;

    #[test]
    fn a_part_of_a_core_is_one() {
        for (cpu, cores) in [(0.1, "1"), (1.0, "1"), (1.5, "2"), (64.0, "64")] {
            assert!(thread_counts(cpu).all(|(_, count)| count == cores), "{cpu}");
        }
    }
}
