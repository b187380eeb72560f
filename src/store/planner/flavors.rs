//! Flavors. A change locks the table, because names and ids must be unique after all of its flavors have
//! been written, and not in between.

use std::collections::{BTreeMap, HashMap};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;

use crate::model::Refusal;
use crate::planner::flavor::Flavor;
use crate::store::Result;
use crate::store::access::Store;
use crate::store::change::Change;
use crate::store::tx::Tx;

/// Stores these flavors; others stay as they are. Refusals: `FlavorIdTaken`.
#[derive(Clone, Debug)]
pub struct SetFlavors(pub Vec<SetFlavor>);

/// A flavor to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFlavor {
    /// The flavor.
    pub flavor: Flavor,
    /// Whether a stored flavor with the name keeps its id.
    keeps_id: bool,
}

/// Deletes the flavor with this name. Refusals: `FlavorNotFound`.
#[derive(Clone, Debug)]
pub struct UnsetFlavor(pub String);

impl Change for SetFlavors {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        sqlx::query!("lock table flavors in share row exclusive mode")
            .execute(&mut *tx.conn)
            .await?;
        let rows =
            sqlx::query!("select name, flavor_id from flavors").fetch_all(&mut *tx.conn).await?;
        let known: HashMap<String, String> =
            rows.into_iter().map(|row| (row.name, row.flavor_id)).collect();
        let flavors: Vec<Flavor> = self.0.iter().map(|wanted| wanted.with_id(&known)).collect();
        check_ids(&known, &flavors)?;
        let names: Vec<String> = flavors.iter().map(|flavor| flavor.name.clone()).collect();
        sqlx::query!("delete from flavors where name = any($1)", &names)
            .execute(&mut *tx.conn)
            .await?;
        for flavor in &flavors {
            insert(tx, flavor).await?;
        }
        Ok(())
    }
}

impl SetFlavor {
    /// Makes a flavor to store. Without an id, a stored flavor keeps its own, and the id of a new one is its name.
    ///
    /// # Errors
    /// The flavor is invalid.
    pub fn new(flavor: Flavor, id: Option<String>) -> std::result::Result<Self, String> {
        let keeps_id = id.is_none();
        let flavor = Flavor { id: id.unwrap_or_else(|| flavor.name.clone()), ..flavor };
        flavor.check()?;
        Ok(Self { flavor, keeps_id })
    }

    fn with_id(&self, known: &HashMap<String, String>) -> Flavor {
        let kept = known.get(&self.flavor.name).filter(|_| self.keeps_id).cloned();
        let id = kept.unwrap_or_else(|| self.flavor.id.clone());
        Flavor { id, ..self.flavor.clone() }
    }
}

impl Change for UnsetFlavor {
    type Outcome = ();

    async fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let gone = sqlx::query!("delete from flavors where name = $1", self.0)
            .execute(&mut *tx.conn)
            .await?
            .rows_affected();
        if gone == 0 { Err(Refusal::FlavorNotFound(self.0.clone()).into()) } else { Ok(()) }
    }
}

/// Refuses the first of these flavors with the id of another one, new or stored.
fn check_ids(
    known: &HashMap<String, String>,
    flavors: &[Flavor],
) -> std::result::Result<(), Refusal> {
    let staying = known.iter().filter(|(name, _)| flavors.iter().all(|it| it.name != **name));
    let mut owners: HashMap<&str, &str> =
        staying.map(|(name, id)| (id.as_str(), name.as_str())).collect();
    for flavor in flavors {
        if let Some(other) = owners.insert(&flavor.id, &flavor.name) {
            let (name, id) = (flavor.name.clone(), flavor.id.clone());
            return Err(Refusal::FlavorIdTaken { name, id, other: other.to_owned() });
        }
    }
    Ok(())
}

async fn insert(tx: &mut Tx<'_>, flavor: &Flavor) -> Result<()> {
    let keys: Vec<String> = flavor.extra_specs.keys().cloned().collect();
    let values: Vec<String> = flavor.extra_specs.values().cloned().collect();
    sqlx::query!(
        "insert into flavors (name, flavor_id, vcpus, ram_mb, root_gb, ephemeral_gb, swap_mb, \
                              extra_specs) \
         select $1, $2, $3, $4, $5, $6, $7, coalesce(jsonb_object_agg(key, value), '{}')::text \
         from unnest($8::text[], $9::text[]) as spec (key, value)",
        flavor.name,
        flavor.id,
        flavor.vcpus,
        flavor.ram_mb,
        flavor.root_gb,
        flavor.ephemeral_gb,
        flavor.swap_mb,
        &keys,
        &values
    )
    .execute(&mut *tx.conn)
    .await?;
    Ok(())
}

struct FlavorRow {
    name: String,
    flavor_id: String,
    vcpus: i32,
    ram_mb: i32,
    root_gb: i32,
    ephemeral_gb: i32,
    swap_mb: i32,
    keys: Vec<String>,
    values: Vec<String>,
}

impl From<FlavorRow> for Flavor {
    fn from(row: FlavorRow) -> Self {
        let extra_specs: BTreeMap<String, String> = row.keys.into_iter().zip(row.values).collect();
        Self {
            name: row.name,
            id: row.flavor_id,
            vcpus: row.vcpus,
            ram_mb: row.ram_mb,
            root_gb: row.root_gb,
            ephemeral_gb: row.ephemeral_gb,
            swap_mb: row.swap_mb,
            extra_specs,
        }
    }
}

/// Selects flavors by name or id, or all of them; in the order of their names.
fn select<'c>(
    names: Option<&[String]>,
    conn: &'c mut PgConnection,
) -> BoxFuture<'c, sqlx::Result<Vec<FlavorRow>>> {
    sqlx::query_as!(
        FlavorRow,
        r#"select name, flavor_id, vcpus, ram_mb, root_gb, ephemeral_gb, swap_mb,
                  array(select key from jsonb_each_text(extra_specs::jsonb) order by key) as "keys!",
                  array(select coalesce(value, '') from jsonb_each_text(extra_specs::jsonb)
                        order by key) as "values!"
           from flavors
           where $1::text[] is null or name = any($1) or flavor_id = any($1)
           order by name"#,
        names
    )
    .fetch_all(conn)
    .boxed()
}

fn shown(rows: Vec<FlavorRow>) -> Vec<Flavor> {
    rows.into_iter().map(Flavor::from).collect()
}

/// Returns all flavors, in the order of their names.
///
/// # Errors
/// The database is unavailable.
pub async fn list(conn: &mut PgConnection) -> Result<Vec<Flavor>> {
    Ok(shown(select(None, conn).await?))
}

impl Store {
    /// Returns the flavors that have one of these names or ids.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn flavors_named(&self, names: &[String]) -> Result<Vec<Flavor>> {
        self.read(|conn| select(Some(names), conn)).await.map(shown)
    }
}
