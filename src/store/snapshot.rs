//! Reads of both sides as of one snapshot: the world, brought forward to the snapshot of a transaction, and
//! the allocations that are visible in this transaction.
//!
//! The transaction is read-only and `repeatable read`, so all its statements see one snapshot. The changes that the
//! known world lacks are read from the change log within it, as for a refresh (`feed`), so the returned world
//! is exactly the one that the transaction sees.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, PgConnection};
use tokio::time::timeout;
use uuid::Uuid;

use super::access::Store;
use super::error::{Error, Result};
use super::events::Numbering;
use super::feed::{self, KnownWorld, RELOAD_ABOVE};
use super::primary::Term;
use super::sessions::{FEED_WAIT_MAX, waiting};
use super::world_delta::{self, Delta};
use crate::model::{ClassId, Generation, ProviderId};
use crate::world::World;

/// Settings for statements that look keys up, like those of the feed.
const LOOK_UPS: &str = "set local enable_hashjoin = off; set local enable_mergejoin = off; \
                        set local enable_seqscan = off";
/// Settings for reading allocations by the fastest plan.
const ANY_PLAN: &str = "set local enable_hashjoin = on; set local enable_mergejoin = on; \
                        set local enable_seqscan = on";

/// Both sides at one moment. It has its own connection until it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    world: Arc<World>,
    number: Option<i64>,
    conn: PgConnection,
    _term: Arc<Term>,
}

/// An allocation of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The provider.
    pub provider: ProviderId,
    /// The resource class.
    pub class: ClassId,
    /// The amount.
    pub used: i64,
    /// The consumer.
    pub consumer: Uuid,
    /// Its generation.
    pub generation: Generation,
    /// Its project, as clients name it.
    pub project: String,
    /// Its user, as clients name it.
    pub user: String,
    /// Its type; `None` if no client has given one.
    pub consumer_type: Option<String>,
}

/// The usage of projects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectUsages {
    /// Number of projects with consumers.
    pub count: i64,
    /// The projects with the most consumers, in descending order.
    pub projects: Vec<ProjectUsage>,
}

/// The usage of a project.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectUsage {
    /// The project, as clients name it.
    pub project: String,
    /// Number of its consumers.
    pub consumers: i64,
    /// Sums by class, which may exceed 64 bits.
    pub used: Vec<(ClassId, f64)>,
}

impl Store {
    /// Returns both sides as of a moment after this call began. The server ends the transaction after `duration`.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn snapshot(&self, duration: Duration) -> Result<Snapshot> {
        let limit = self.primary().timeouts().read;
        let late = || Error::Unavailable(format!("no snapshot within {limit:?}"));
        let taken = async {
            if let Some(snapshot) = self.try_snapshot(duration).await? {
                return Ok(snapshot);
            }
            // Much has changed since the last refresh, or the database was restored.
            self.world().await?;
            let lost = || Error::Unavailable("the world changes too fast to be read".to_owned());
            self.try_snapshot(duration).await?.ok_or_else(lost)
        };
        timeout(limit, taken).await.unwrap_or_else(|_| Err(late())).map_err(Error::settled)
    }

    /// Tries to take a snapshot; `None` if the known world cannot be brought forward.
    async fn try_snapshot(&self, duration: Duration) -> Result<Option<Snapshot>> {
        let known = self.feed.known_with_snapshot();
        let (mut conn, term) = self.primary().connect(settings).await?;
        let mut numbering =
            if self.keeps_events() { Some(Numbering::new(&term).await?) } else { None };
        let forward = term.during(async {
            let number = match &mut numbering {
                None => {
                    begin(&mut conn, duration).await?;
                    None
                }
                Some(numbering) => {
                    let locked = numbering.lock().await?;
                    begin(&mut conn, duration).await?;
                    let now =
                        sqlx::query_scalar!(r#"select pg_current_snapshot()::text as "now!""#);
                    let now = now.fetch_one(&mut conn).await?;
                    Some(locked.number(&now).await?)
                }
            };
            let world = forward(&mut conn, &known).await?;
            sqlx::raw_sql(ANY_PLAN).execute(&mut conn).await?;
            Ok((world, number))
        });
        let (Some(world), number) = forward.await? else { return Ok(None) };
        drop(numbering);
        self.primary().confirm(&term).await?;
        Ok(Some(Snapshot { world, number, conn, _term: term }))
    }
}

fn settings(options: PgConnectOptions) -> PgConnectOptions {
    waiting(options, FEED_WAIT_MAX)
}

/// Begins a transaction with a time limit.
async fn begin(conn: &mut PgConnection, duration: Duration) -> Result<()> {
    let most = duration.as_millis();
    let begin = format!(
        "begin isolation level repeatable read, read only;
         set local statement_timeout = {most};
         set local idle_in_transaction_session_timeout = {most};
         {LOOK_UPS}"
    );
    sqlx::raw_sql(AssertSqlSafe(begin)).execute(conn).await?;
    Ok(())
}

/// Returns the known world with the missing changes of the transaction's snapshot; `None` if these are too many,
/// or unknown.
async fn forward(conn: &mut PgConnection, known: &KnownWorld) -> Result<Option<Arc<World>>> {
    let Some(read_point) = &known.read_point else { return Ok(None) };
    match world_delta::delta_in_snapshot(conn, &read_point.snapshot).await? {
        Some(Delta { identity, changes, count, .. })
            if identity.as_ref() == Some(&read_point.identity) && count <= RELOAD_ABOVE =>
        {
            let world = Arc::clone(&known.world);
            Ok(Some(match count {
                0 => world,
                _ => Arc::new(feed::apply(world, changes, count).await?),
            }))
        }
        Some(_) | None => Ok(None),
    }
}

impl Snapshot {
    /// Returns the number of the last event in it, if the log of events is on.
    pub fn number(&self) -> Option<i64> {
        self.number
    }

    /// Returns the provider side.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Returns the usage of at most `projects_max` projects.
    ///
    /// # Errors
    /// The database is unavailable, or the time of the transaction is over.
    pub async fn usages_of_projects(&mut self, projects_max: i64) -> Result<ProjectUsages> {
        let rows = sqlx::query!(
            r#"with owners as materialized (
                   select project_id, count(*) as consumers from consumers group by project_id
               ), shown as materialized (
                   select project_id, consumers from owners
                   order by consumers desc, project_id limit $1
               ), used as (
                   select c.project_id, a.class_id, sum(a.used)::float8 as used
                   from shown s
                   join consumers c on c.project_id = s.project_id
                   join allocations a on a.consumer_id = c.id
                   group by c.project_id, a.class_id
               )
               select (select count(*) from owners) as "count!", p.external_id as project,
                      s.consumers as "consumers!", u.class_id as "class_id!", u.used as "used!"
               from shown s
               join projects p on p.id = s.project_id
               join used u on u.project_id = s.project_id
               order by s.consumers desc, s.project_id, u.class_id"#,
            projects_max
        )
        .fetch_all(&mut self.conn)
        .await?;
        let mut usages = ProjectUsages::default();
        for row in rows {
            usages.count = row.count;
            let used = (ClassId(row.class_id), row.used);
            match usages.projects.last_mut() {
                Some(last) if last.project == row.project => last.used.push(used),
                _ => usages.projects.push(ProjectUsage {
                    project: row.project,
                    consumers: row.consumers,
                    used: vec![used],
                }),
            }
        }
        Ok(usages)
    }

    /// Returns the allocations on providers, ascending by the key of the provider, then by consumer and class.
    pub fn allocations<'c>(
        &'c mut self,
        providers: &'c [i64],
    ) -> impl Stream<Item = Result<Allocation>> + Send + 'c {
        let rows = sqlx::query!(
            r#"select a.provider_id as "provider_id!", a.class_id as "class_id!", a.used as "used!",
                      c.uuid as consumer, c.generation,
                      p.external_id as project, u.external_id as "user",
                      t.name as "consumer_type?"
               from allocations a
               join consumers c on c.id = a.consumer_id
               join projects p on p.id = c.project_id
               join users u on u.id = c.user_id
               left join consumer_types t on t.id = c.consumer_type_id
               where a.provider_id = any($1)
               order by a.provider_id, a.consumer_id, a.class_id"#,
            providers
        );
        let rows = rows.map(|row| Allocation {
            provider: ProviderId(row.provider_id),
            class: ClassId(row.class_id),
            used: row.used,
            consumer: row.consumer,
            generation: row.generation,
            project: row.project,
            user: row.user,
            consumer_type: row.consumer_type,
        });
        rows.fetch(&mut self.conn).map_err(Error::from)
    }
}
