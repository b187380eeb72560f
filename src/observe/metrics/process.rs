//! Metrics of the process, under the names that all clients of Prometheus use.
//!
//! They are written by hand, because the crate `metrics` has only integer counters.

use std::fmt::Write;
use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Appends the figures of the system, in the text format of Prometheus. Missing ones are left out.
pub(super) fn write(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Stat::read(&stat));
    if let Some(stat) = stat {
        let what = "Processor time used by the process.";
        let cpu = seconds(stat.cpu_ticks);
        metric(text, "process_cpu_seconds_total", "counter", what, cpu);
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| boot_time(&stat));
        if let Some(boot) = boot {
            let what = "When the process was started, in Unix time.";
            let began = boot + seconds(stat.start_ticks);
            metric(text, "process_start_time_seconds", "gauge", what, began);
        }
        let resident = stat.resident_pages * page_size() as u64;
        for (name, what, value) in [
            ("process_threads", "Threads of the process.", stat.threads),
            ("process_virtual_memory_bytes", "Virtual memory.", stat.virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory.", resident),
        ] {
            metric(text, name, "gauge", what, value);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the descriptor of the directory.
        let open = open.count().saturating_sub(1);
        metric(text, "process_open_fds", "gauge", "Open file descriptors.", open);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        let what = "File descriptors that may be open.";
        metric(text, "process_max_fds", "gauge", what, most);
    }
}

fn metric(text: &mut String, name: &str, kind: &str, what: &str, value: impl std::fmt::Display) {
    let lines = format_args!("# HELP {name} {what}\n# TYPE {name} {kind}\n{name} {value}\n\n");
    // Writing to a string does not fail.
    let _infallible = text.write_fmt(lines);
}

#[expect(clippy::cast_precision_loss, reason = "less than 2 to the 52nd")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

/// Fields of `/proc/self/stat`, as described in proc(5).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    threads: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The second field is the name of the program, which may contain blanks and brackets.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // Fields are counted from one, as in the manual; the first two are gone.
        let field = |nth: usize| fields.get(nth - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Returns the boot time of the machine, in Unix time.
fn boot_time(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Stat, boot_time, write};

    #[test]
    fn the_figures_of_a_process_are_read() {
        let text = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 5 0 333 4096 66 1 1";
        let expected = Stat {
            cpu_ticks: 33,
            threads: 5,
            start_ticks: 333,
            virtual_bytes: 4096,
            resident_pages: 66,
        };
        assert_eq!(Stat::read(text), Some(expected));
        assert_eq!(Stat::read("7 (a"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\n"), Some(1.7e9));
        let mut text = String::new();
        write(&mut text);
        for name in ["cpu_seconds_total", "start_time_seconds", "open_fds", "max_fds"] {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{text}");
        }
    }
}
