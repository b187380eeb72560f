//! The speed of the parts of a response that need neither HTTP nor a database, measured by criterion.
//! `make bench-core` runs all of it in about two minutes.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made has failed")]

mod changes;
mod clouds;
mod explain;
mod fit;
mod judging;
mod plan;
mod rendering;
mod search;

use std::sync::LazyLock;
use std::time::Duration;

use criterion::Criterion;

/// Built only if a measurement that needs it is chosen.
static MILLION: LazyLock<clouds::Cloud> = LazyLock::new(|| clouds::flat(1_000_000));

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    search::measure(&mut criterion);
    explain::measure(&mut criterion);
    fit::measure(&mut criterion);
    rendering::measure(&mut criterion);
    judging::measure(&mut criterion);
    changes::measure(&mut criterion);
    plan::measure(&mut criterion);
    criterion.final_summary();
}
