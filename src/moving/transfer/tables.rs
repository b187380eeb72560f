//! The tables of OpenStack Placement, and how their rows are read as text.

use super::chunks::Keys;
use super::reference_url::Dialect;

/// A table to import.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name in the source. The staging table has the prefix `source_`.
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    /// Columns that identify and sort the rows. The first of them is the table's first column, by which rows are
    /// divided into chunks.
    pub(super) key: &'static [&'static str],
    /// Columns that the staging computes from others.
    pub(super) computed: &'static str,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An integer of up to 64 bits.
    Integer,
    /// An integer that Berth stores with 32 bits.
    Amount,
    /// Text. A NUL, which PostgreSQL cannot store, is escaped: see [`super::staging`].
    Text,
    /// A floating point number.
    Float,
    /// Modification time of the row, in seconds since 1970; computed from two columns.
    Changed,
}

const fn integer(name: &'static str) -> Column {
    Column { name, kind: Kind::Integer }
}

const fn amount(name: &'static str) -> Column {
    Column { name, kind: Kind::Amount }
}

const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text }
}

const CHANGED: Column = Column { name: "updated_at", kind: Kind::Changed };

/// The name as Berth shows it, computed from the staged form.
const SHOWN_NAME: &str = "shown text generated always as (SCHEMA.as_text(name)) stored";
const SHOWN_EXTERNAL_ID: &str =
    "shown text generated always as (SCHEMA.as_text(external_id)) stored";

/// The first version of the schema with consumer types.
pub(super) const CONSUMER_TYPES: &str = "422ece571366";

/// All tables, in the order in which they are read. Those of consumer types are left out before [`CONSUMER_TYPES`].
pub(super) const TABLES: [Table; 12] = [
    Table {
        name: "resource_classes",
        columns: &[integer("id"), text("name"), CHANGED],
        key: &["id"],
        computed: SHOWN_NAME,
    },
    Table {
        name: "traits",
        columns: &[integer("id"), text("name"), CHANGED],
        key: &["id"],
        computed: SHOWN_NAME,
    },
    Table {
        name: "projects",
        columns: &[integer("id"), text("external_id")],
        key: &["id"],
        computed: SHOWN_EXTERNAL_ID,
    },
    Table {
        name: "users",
        columns: &[integer("id"), text("external_id")],
        key: &["id"],
        computed: SHOWN_EXTERNAL_ID,
    },
    Table {
        name: "consumer_types",
        columns: &[integer("id"), text("name")],
        key: &["id"],
        computed: SHOWN_NAME,
    },
    Table {
        name: "placement_aggregates",
        columns: &[integer("id"), text("uuid")],
        key: &["id"],
        computed: "",
    },
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
        key: &["id"],
        computed: SHOWN_NAME,
    },
    Table {
        name: "resource_provider_traits",
        columns: &[integer("resource_provider_id"), integer("trait_id")],
        key: &["resource_provider_id", "trait_id"],
        computed: "",
    },
    Table {
        name: "resource_provider_aggregates",
        columns: &[integer("resource_provider_id"), integer("aggregate_id")],
        key: &["resource_provider_id", "aggregate_id"],
        computed: "",
    },
    Table {
        name: "inventories",
        columns: &[
            integer("id"),
            integer("resource_provider_id"),
            integer("resource_class_id"),
            amount("total"),
            amount("reserved"),
            amount("min_unit"),
            amount("max_unit"),
            amount("step_size"),
            Column { name: "allocation_ratio", kind: Kind::Float },
            CHANGED,
        ],
        key: &["id"],
        computed: "valid boolean generated always as (coalesce(total > 0 and reserved >= 0 and min_unit > 0 \
                   and max_unit > 0 and step_size > 0 and allocation_ratio >= 0 \
                   and allocation_ratio < 'infinity', false)) stored",
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
        key: &["id"],
        computed: "consumer uuid generated always as (SCHEMA.as_uuid(uuid)) stored",
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
        key: &["id"],
        computed: "consumer uuid generated always as (SCHEMA.as_uuid(consumer_id)) stored",
    },
];

impl Column {
    /// Type of the column in the temporary table.
    pub(super) fn sql_type(&self) -> &'static str {
        match self.kind {
            Kind::Integer | Kind::Amount | Kind::Changed => "bigint",
            Kind::Text => "text",
            Kind::Float => "double precision",
        }
    }

    /// An expression for its value as text.
    fn as_text(&self, dialect: Dialect) -> String {
        let name = self.name;
        match (self.kind, dialect) {
            (Kind::Changed, Dialect::MySql) => {
                // `0000-00-00`, which older servers accept as a time, becomes 0.
                "cast(nullif(floor(unix_timestamp(coalesce(updated_at, created_at))), 0) as char)"
                    .to_owned()
            }
            (Kind::Changed, Dialect::Postgres) => {
                "case when isfinite(coalesce(updated_at, created_at)) then \
                 floor(extract(epoch from coalesce(updated_at, created_at)))::bigint::text end"
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
    /// A numbered query parameter with this column's type.
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
    /// The names of its columns.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// The column by which rows are divided into chunks.
    pub(super) fn chunked_by(&self) -> &'static str {
        self.key.first().map_or("id", |key| key)
    }

    /// Expressions for the columns as text.
    fn texts(&self, dialect: Dialect, has_types: bool) -> Vec<String> {
        let text = |column: &Column| {
            if column.name == "consumer_type_id" && !has_types {
                "null".to_owned()
            } else {
                column.as_text(dialect)
            }
        };
        self.columns.iter().map(text).collect()
    }

    /// A query for the rows with these keys, or for all rows if `keys` is empty, with each column as text.
    pub(super) fn select(&self, dialect: Dialect, has_types: bool, keys: &[Keys]) -> String {
        let columns = self.texts(dialect, has_types).join(", ");
        let (name, key) = (self.name, self.chunked_by());
        // Qualified, because an unqualified name would mean the text.
        let order: Vec<String> = self.key.iter().map(|key| format!("{name}.{key}")).collect();
        let order = order.join(", ");
        let within = |keys: &Keys| format!("({key} >= {} and {key} < {})", keys.first, keys.end);
        let within: Vec<String> = keys.iter().map(within).collect();
        let only = if within.is_empty() {
            String::new()
        } else {
            format!("where {} ", within.join(" or "))
        };
        format!("select {columns} from {name} {only}order by {order}")
    }

    /// A query for all chunks of `width` keys: number, row count, and a fingerprint of the columns that are read.
    ///
    /// A fingerprint is the sum of one number per row, so it does not depend on the order of rows. In `MySQL`, the
    /// number is the product of two 32-bit CRCs, of the row and of its key. A single CRC is not enough: when the same
    /// bits change in two rows, such as two generations that both go from 1 to 2, their CRCs change together, and the
    /// sum would stay the same too often. `PostgreSQL` uses 60 bits of an MD5. `SQLite` has neither; its fingerprint
    /// is the text of the rows, as bytes because it need not be UTF-8, which [`super::chunks`] hashes.
    pub(super) fn fingerprints(&self, dialect: Dialect, has_types: bool, width: i64) -> String {
        let texts = self.texts(dialect, has_types);
        let texts: Vec<String> =
            texts.iter().map(|text| format!("coalesce({text}, '~')")).collect();
        let (name, key, order) = (self.name, self.chunked_by(), self.key.join(", "));
        match dialect {
            Dialect::MySql => {
                let reversed: Vec<&str> = self.key.iter().rev().copied().collect();
                let (row, of_key) = (texts.join(", "), reversed.join(", "));
                format!(
                    "select cast(chunk as char), cast(counted as char), cast(fingerprint as char) from \
                     (select {key} div {width} as chunk, count(*) as counted, \
                     sum(crc32(concat_ws('.', {of_key})) * crc32(concat_ws(',', {row}))) as fingerprint \
                     from {name} group by chunk) as chunks"
                )
            }
            Dialect::Postgres => {
                let row = texts.join(", ");
                format!(
                    "select (({key}) / {width})::text, count(*)::text, \
                     sum(('x' || substr(md5(concat_ws(',', {row})), 1, 15))::bit(60)::bigint)::text \
                     from {name} group by ({key}) / {width}"
                )
            }
            Dialect::Sqlite => {
                let row = texts.join(" || ',' || ");
                format!(
                    "select cast(chunk as text), cast(count(*) as text), cast(group_concat(line, ';') as blob) from \
                     (select {key} / {width} as chunk, {row} as line from {name} order by {order}) group by chunk"
                )
            }
        }
    }

    /// A query for the row count, and the lowest and the highest key.
    pub(super) fn extent(&self, dialect: Dialect) -> String {
        let text = match dialect {
            Dialect::MySql => "char",
            Dialect::Postgres | Dialect::Sqlite => "text",
        };
        let (name, key) = (self.name, self.chunked_by());
        format!(
            "select cast(count(*) as {text}), cast(coalesce(min({key}), 0) as {text}), \
             cast(coalesce(max({key}), 0) as {text}) from {name}"
        )
    }
}
