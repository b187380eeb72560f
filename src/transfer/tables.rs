//! The tables of OpenStack Placement, and how their rows are read as text.

use super::reference_url::Dialect;

/// A table that is brought over.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name in the source. The temporary table in Berth's database is called `source_` and this.
    pub(super) name: &'static str,
    /// Its columns.
    pub(super) columns: &'static [Column],
    /// By which rows are sorted.
    pub(super) key: &'static str,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An integer of up to 64 bits.
    Integer,
    /// Text. A NUL, which PostgreSQL cannot store, is replaced.
    Text,
    /// A floating point number.
    Float,
    /// When the row was changed last, in seconds since 1970; made of two columns.
    Changed,
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: Kind::Integer }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

const CHANGED: Column = Column { name: "updated_at", kind: Kind::Changed };

/// Types of consumers came with this version of the schema.
pub(super) const CONSUMER_TYPES: &str = "422ece571366";

/// All tables, in the order in which they are read. Those of types of consumers are left out before
/// [`CONSUMER_TYPES`].
pub(super) const TABLES: [Table; 12] = [
    Table { name: "resource_classes", columns: &[integer("id"), text("name"), CHANGED], key: "id" },
    Table { name: "traits", columns: &[integer("id"), text("name"), CHANGED], key: "id" },
    Table { name: "projects", columns: &[integer("id"), text("external_id")], key: "id" },
    Table { name: "users", columns: &[integer("id"), text("external_id")], key: "id" },
    Table { name: "consumer_types", columns: &[integer("id"), text("name")], key: "id" },
    Table { name: "placement_aggregates", columns: &[integer("id"), text("uuid")], key: "id" },
    Table {
        name: "resource_providers",
        columns: &[
            integer("id"),
            text("uuid"),
            text("name"),
            integer("generation"),
            integer("root_provider_id"),
            integer("parent_provider_id"),
            CHANGED,
        ],
        key: "id",
    },
    Table {
        name: "resource_provider_traits",
        columns: &[integer("resource_provider_id"), integer("trait_id")],
        key: "resource_provider_id, trait_id",
    },
    Table {
        name: "resource_provider_aggregates",
        columns: &[integer("resource_provider_id"), integer("aggregate_id")],
        key: "resource_provider_id, aggregate_id",
    },
    Table {
        name: "inventories",
        columns: &[
            integer("id"),
            integer("resource_provider_id"),
            integer("resource_class_id"),
            integer("total"),
            integer("reserved"),
            integer("min_unit"),
            integer("max_unit"),
            integer("step_size"),
            Column { name: "allocation_ratio", kind: Kind::Float },
            CHANGED,
        ],
        key: "id",
    },
    Table {
        name: "consumers",
        columns: &[
            integer("id"),
            text("uuid"),
            integer("project_id"),
            integer("user_id"),
            integer("generation"),
            integer("consumer_type_id"),
        ],
        key: "id",
    },
    Table {
        name: "allocations",
        columns: &[
            integer("id"),
            integer("resource_provider_id"),
            text("consumer_id"),
            integer("resource_class_id"),
            integer("used"),
            CHANGED,
        ],
        key: "id",
    },
];

impl Column {
    /// The type of the column in the temporary table.
    pub(super) fn sql_type(&self) -> &'static str {
        match self.kind {
            Kind::Integer | Kind::Changed => "bigint",
            Kind::Text => "text",
            Kind::Float => "double precision",
        }
    }

    /// An expression that gives its value as text.
    fn as_text(&self, dialect: Dialect) -> String {
        let name = self.name;
        match (self.kind, dialect) {
            (Kind::Changed, Dialect::MySql) => {
                "cast(floor(unix_timestamp(coalesce(updated_at, created_at))) as char)".to_owned()
            }
            (Kind::Changed, Dialect::Postgres) => {
                "floor(extract(epoch from coalesce(updated_at, created_at)))::bigint::text"
                    .to_owned()
            }
            (Kind::Changed, Dialect::Sqlite) => {
                "strftime('%s', coalesce(updated_at, created_at))".to_owned()
            }
            // MySQL's FLOAT has 32 bits; as text it has the digits that the reference's clients see.
            (_, Dialect::MySql) => format!("cast({name} as char)"),
            (Kind::Float, Dialect::Sqlite) => format!("printf('%!.17g', {name})"),
            (_, Dialect::Sqlite) => format!("cast({name} as text)"),
            (_, Dialect::Postgres) => format!("{name}::text"),
        }
    }
}

impl Column {
    /// A parameter of this column's type, with its number, that stands for a value to be written.
    pub(super) fn parameter(&self, dialect: Dialect, number: usize) -> String {
        match (self.kind, dialect) {
            (Kind::Changed, Dialect::MySql) => "from_unixtime(?)".to_owned(),
            (Kind::Changed, Dialect::Postgres) => {
                format!("to_timestamp(${number}::bigint) at time zone 'UTC'")
            }
            (Kind::Changed, Dialect::Sqlite) => "datetime(?, 'unixepoch')".to_owned(),
            (_, Dialect::Postgres) => format!("${number}"),
            (_, Dialect::MySql | Dialect::Sqlite) => "?".to_owned(),
        }
    }
}

impl Table {
    /// A query of all rows, each column as text.
    pub(super) fn select(&self, dialect: Dialect, has_types: bool) -> String {
        let expression = |column: &Column| {
            if column.name == "consumer_type_id" && !has_types {
                "null".to_owned()
            } else {
                column.as_text(dialect)
            }
        };
        let columns: Vec<String> = self.columns.iter().map(expression).collect();
        format!("select {} from {} order by {}", columns.join(", "), self.name, self.key)
    }
}
