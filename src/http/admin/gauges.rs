//! Gauges that are set when they are read.

use metrics::gauge;

use crate::http::app::App;

/// Records the gauges of an application: what it holds, and its [load](record_load).
pub(super) fn record(app: &App) {
    record_load(app);
    let world = app.store.known_world();
    gauge!("berth_providers").set(number(world.len()));
    gauge!("berth_overcommitted_providers").set(number(world.overcommitted_providers()));
    let consumers = app.store.consumers_in_memory();
    gauge!("berth_consumers_in_memory").set(consumers.map_or(0.0, number));
    gauge!("berth_writes_failing").set(u8::from(app.store.are_writes_failing()));
}

/// Records the gauges of the work in progress, which are read in no time.
pub(in crate::http) fn record_load(app: &App) {
    gauge!("berth_large_responses_bytes").set(number(app.large_responses.bytes()));
    if let Some((used, idle, most)) = app.store.pool_counts() {
        for (state, count) in [("used", used), ("idle", idle)] {
            gauge!("berth_database_pool_connections", "state" => state).set(count);
        }
        gauge!("berth_database_pool_connections_max").set(most);
    }
    for (kind, turns) in [
        ("search", &app.search_turns),
        ("plan", &app.plan_turns),
        ("plan_read", &app.read_turns),
        ("plan_request", &app.planned),
        ("question", &app.questions),
        ("bulk_read", &app.snapshots),
        ("events", &app.followers),
    ] {
        gauge!("berth_turns_held", "kind" => kind).set(number(turns.held()));
        gauge!("berth_turns_waiting", "kind" => kind).set(number(turns.waiting()));
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd")]
pub(super) fn number(count: usize) -> f64 {
    count as f64
}
