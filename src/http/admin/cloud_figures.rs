//! Metrics of the cloud under the names of openstack-exporter, from memory: inventories and usages
//! of each provider.
//!
//! The text is produced in pieces while it is sent, so that memory does not grow with the number of
//! providers. All pieces are of one world. Usages of projects are read from the database, at the
//! generation of this world, for a bounded number of projects.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use tokio::time::timeout;

use crate::fairness::turns::Requester;
use crate::http::api::streamed;
use crate::http::app::App;
use crate::model::provider::InventoryRow;
use crate::observe::printable::acts;
use crate::store;
use crate::store::snapshot::{ProjectUsage, ProjectUsages};
use crate::world::{Provider, World};

/// Approximate size of a piece, in bytes.
const PIECE: usize = 128 * 1024;
/// Timeouts for a turn to read project usages, and for reading them.
const PROJECTS_WAIT_MAX: Duration = Duration::from_secs(1);
const PROJECTS_READ_MAX: Duration = Duration::from_secs(5);
/// The name under which those turns are taken.
const ASKER: &str = "figures of the cloud";

/// A metric: its name, its help text, and its series.
type Metric = (&'static str, &'static str, Series);

/// The series of a metric.
enum Series {
    /// One for each inventory, with this value.
    Inventories(fn(&mut String, &Provider<'_>, &InventoryRow)),
    /// One for each provider with traits, listing their names.
    Traits,
    /// The number of projects.
    ProjectCount,
    /// One for each project, with the number of its consumers.
    Consumers,
    /// One for each project and class, with the used amount.
    ProjectUsage,
    /// One series, which is 1: the exporter's sign that its scrape succeeded.
    Up,
}

/// The metrics, in the order of the text.
///
/// The `_total` in a name is the exporter's, although the values are not counters; so the type is
/// `untyped`. Prometheus does not store types.
const METRICS: [Metric; 10] = [
    (
        "openstack_placement_resource_total",
        "Units that the provider has.",
        Series::Inventories(|text, _, row| number(text, row.terms.total.into())),
    ),
    (
        "openstack_placement_resource_reserved",
        "Units that are kept back from allocation.",
        Series::Inventories(|text, _, row| number(text, row.terms.reserved.into())),
    ),
    (
        "openstack_placement_resource_allocation_ratio",
        "Factor by which units may be overcommitted.",
        Series::Inventories(|text, _, row| ratio(text, row.terms.allocation_ratio)),
    ),
    (
        "openstack_placement_resource_generation",
        "Generation of the provider.",
        Series::Inventories(|text, provider, _| number(text, provider.generation())),
    ),
    (
        "openstack_placement_resource_usage",
        "Units that are allocated.",
        Series::Inventories(|text, _, row| number(text, row.used)),
    ),
    (
        "openstack_placement_resource_traits",
        "Traits of the provider; the value is 1.",
        Series::Traits,
    ),
    (
        "openstack_placement_projects",
        "Number of projects with consumers, including those that are not shown.",
        Series::ProjectCount,
    ),
    (
        "openstack_placement_project_consumers",
        "Number of consumers of the project.",
        Series::Consumers,
    ),
    (
        "openstack_placement_project_usage",
        "Units that are allocated to consumers of the project.",
        Series::ProjectUsage,
    ),
    ("openstack_placement_up", "Whether the figures could be read.", Series::Up),
];

/// A snapshot of the cloud.
pub(in crate::http) struct Cloud {
    world: Arc<World>,
    /// Usages of projects; `None` if they could not be read.
    projects: Option<ProjectUsages>,
}

impl Cloud {
    /// Reads the current cloud. Usages of projects are omitted if they cannot be read in time.
    ///
    /// # Errors
    /// The database is not available.
    pub(in crate::http) async fn read(app: &App) -> store::Result<Self> {
        match Self::with_projects(app).await {
            Ok(cloud) => Ok(cloud),
            Err(why) => {
                tracing::warn!(why, "the metrics omit the usage of projects");
                Ok(Self { world: app.store.world().await?, projects: None })
            }
        }
    }

    /// Reads both parts in one snapshot.
    async fn with_projects(app: &App) -> Result<Self, String> {
        let turn = timeout(PROJECTS_WAIT_MAX, app.snapshots.turn(Requester::named(ASKER))).await;
        let _turn = match turn {
            Ok(turn) => turn.map_err(|full| full.to_string())?,
            Err(_) => return Err("too many snapshots are being read".to_owned()),
        };
        let read = async {
            let mut snapshot = app.store.snapshot(PROJECTS_READ_MAX).await?;
            let most = app.options.metrics_projects.into();
            let projects = snapshot.usages_of_projects(most).await?;
            Ok(Self { world: Arc::clone(snapshot.world()), projects: Some(projects) })
        };
        read.await.map_err(|error: store::Error| error.to_string())
    }
}

/// Returns the metrics of a cloud, in the text format of Prometheus.
pub(in crate::http) fn body(cloud: Cloud) -> Body {
    let mut writing = Writing { cloud, metric: 0, next: None };
    streamed::made_at_once(move || writing.piece().into())
}

/// Position in the text.
struct Writing {
    cloud: Cloud,
    /// Index of the metric.
    metric: usize,
    /// The slot of the next provider, or the index of the next project; `None` before the metric's
    /// header.
    next: Option<u32>,
}

impl Writing {
    /// Returns the next piece; empty at the end.
    fn piece(&mut self) -> String {
        let mut text = String::with_capacity(PIECE + PIECE / 8);
        while text.len() < PIECE {
            let Some((name, what, series)) = METRICS.get(self.metric) else { break };
            let end = self.cloud.end(series);
            let mut next = self.next.unwrap_or_else(|| {
                if end > 0 {
                    head(&mut text, name, what);
                }
                0
            });
            while next < end && text.len() < PIECE {
                self.cloud.write(&mut text, name, series, next);
                next += 1;
            }
            self.next = Some(next);
            if next >= end {
                (self.metric, self.next) = (self.metric + 1, None);
            }
        }
        text
    }
}

impl Cloud {
    /// Returns the end of the range of slots or indexes.
    fn end(&self, series: &Series) -> u32 {
        let projects = || self.projects.as_ref().map_or(0, |it| it.projects.len());
        match series {
            Series::Inventories(_) | Series::Traits => self.world.end(),
            Series::ProjectCount => u32::from(self.projects.is_some()),
            Series::Consumers | Series::ProjectUsage => {
                u32::try_from(projects()).map_or(u32::MAX, |count| count)
            }
            Series::Up => 1,
        }
    }

    /// Writes the series of a provider or a project.
    fn write(&self, text: &mut String, name: &str, series: &Series, next: u32) {
        let project = || self.projects.as_ref()?.projects.get(usize::try_from(next).ok()?);
        match series {
            Series::Inventories(value) => {
                if let Some(provider) = self.world.at(next) {
                    self.write_inventories(text, name, &provider, *value);
                }
            }
            Series::Traits => {
                if let Some(provider) = self.world.at(next) {
                    self.write_traits(text, name, &provider);
                }
            }
            Series::ProjectCount => {
                let count = self.projects.as_ref().map_or(0, |projects| projects.count);
                let _infallible = writeln!(text, "{name} {count}");
            }
            Series::Consumers => {
                if let Some(ProjectUsage { project, consumers, .. }) = project() {
                    label(text, name, "tenant_id", project);
                    let _infallible = writeln!(text, "}} {consumers}");
                }
            }
            Series::ProjectUsage => {
                if let Some(ProjectUsage { project, used, .. }) = project() {
                    for (class, used) in used {
                        label(text, name, "tenant_id", project);
                        let class = self.world.name_of_class(*class);
                        let _infallible = writeln!(text, ",resourcetype=\"{class}\"}} {used}");
                    }
                }
            }
            Series::Up => {
                let _infallible = writeln!(text, "{name} 1");
            }
        }
    }

    fn write_inventories(
        &self,
        text: &mut String,
        name: &str,
        provider: &Provider<'_>,
        value: fn(&mut String, &Provider<'_>, &InventoryRow),
    ) {
        let mut beginning = String::new();
        label(&mut beginning, name, "hostname", provider.name());
        for row in provider.inventories() {
            text.push_str(&beginning);
            // Names of classes and traits contain only letters, digits and underscores.
            text.push_str(",resourcetype=\"");
            text.push_str(self.world.name_of_class(row.class));
            text.push_str("\"} ");
            value(text, provider, &row);
            text.push('\n');
        }
    }

    fn write_traits(&self, text: &mut String, name: &str, provider: &Provider<'_>) {
        let mut names: Vec<&str> =
            provider.traits().iter().map(|id| self.world.name_of_trait(*id)).collect();
        if names.is_empty() {
            return;
        }
        names.sort_unstable();
        label(text, name, "hostname", provider.name());
        let _infallible = writeln!(text, ",resource_traits=\"{}\"}} 1", names.join(","));
    }
}

fn head(text: &mut String, name: &str, what: &str) {
    let kind = if name.ends_with("_total") { "untyped" } else { "gauge" };
    // Writing to a string does not fail.
    let _infallible = write!(text, "# HELP {name} {what}\n# TYPE {name} {kind}\n");
}

/// Writes the name of a metric and the first label of a series.
fn label(text: &mut String, name: &str, label: &str, value: &str) {
    text.push_str(name);
    text.push('{');
    text.push_str(label);
    text.push_str("=\"");
    escape(text, value);
    text.push('"');
}

/// Appends the value of a label. The format has escapes for backslash, quote and newline only;
/// other control characters are written as an escape that becomes part of the value.
fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            acting if acts(acting) => {
                text.push('\\');
                text.extend(acting.escape_default());
            }
            other => text.push(other),
        }
    }
}

fn number(text: &mut String, value: i64) {
    text.push_str(itoa::Buffer::new().format(value));
}

fn ratio(text: &mut String, value: f64) {
    let _infallible = write!(text, "{value}");
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn a_label_is_escaped() {
        let mut text = String::new();
        escape(&mut text, "a\\b\"c\nd\u{1b}[2J\r\u{9b}\u{7f}\u{2028}\u{202e}é");
        assert_eq!(text, r#"a\\b\"c\nd\\u{1b}[2J\\r\\u{9b}\\u{7f}\\u{2028}\\u{202e}é"#);
    }
}
