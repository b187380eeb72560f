//! Names that are distinct in Berth, but equal or not storable in a `MySQL` or `MariaDB` database.

use std::collections::{BTreeSet, HashMap};

use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::error::Error;
use super::listed::first;
use super::reference::Database;
use super::reference_url::Dialect;
use super::report::Finding;

/// Unique names of the reference's database: table, column, and a noun for the row.
const NAMES: [(&str, &str, &str); 3] = [
    ("resource_providers", "name", "provider"),
    ("projects", "external_id", "project"),
    ("users", "external_id", "user"),
];

/// Character set and collation of a column.
#[derive(Clone, Debug)]
struct Collation {
    name: String,
    charset: String,
}

/// A name, and its canonical decomposition (letters separated from accents).
type Name = (String, String);

/// Refuses names that the database considers equal, or cannot store.
pub(super) async fn check(from: &mut PgConnection, into: &mut Database) -> Result<(), Error> {
    if into.dialect != Dialect::MySql {
        return Ok(());
    }
    for (table, column, _) in NAMES {
        let Some(collation) = Collation::of(into, table, column).await? else { continue };
        let names =
            format!("select {column}, normalize({column}, NFD) from target_{table} order by id");
        let names: Vec<Name> = sqlx::query_as(AssertSqlSafe(names)).fetch_all(&mut *from).await?;
        collation
            .check(&names)
            .map_err(|why| Error::Refused(format!("{table}.{column}: {why}")))?;
    }
    Ok(())
}

/// Returns the pairs of names that the database considers equal and Berth does not, by the database's own comparison;
/// and a note if its comparison of names differs from Berth's.
pub(super) async fn alike(from: &mut Database) -> Result<(Option<String>, Vec<Finding>), Error> {
    let (mut collations, mut pairs) = (BTreeSet::new(), Vec::new());
    if from.dialect != Dialect::MySql {
        return Ok((None, pairs));
    }
    for (table, column, what) in NAMES {
        let Some(collation) = Collation::of(from, table, column).await? else { continue };
        let alike = format!(
            "select cast(one.{column} as char), cast(other.{column} as char) \
             from (select min(id) as id from {table} group by {column} having count(*) > 1) as same \
             join {table} as one on one.id = same.id \
             join {table} as other on other.{column} = one.{column} and other.id <> one.id \
             order by one.id, other.id"
        );
        let rows = sqlx::query_as::<_, (String, String)>(AssertSqlSafe(alike));
        let rows = rows.fetch_all(&mut from.conn).await.map_err(Error::Reference)?;
        let differing = rows.into_iter().filter(|(one, other)| one != other);
        pairs.extend(differing.map(|(one, other)| Finding {
            kind: "names that are one to the old database".to_owned(),
            row: format!("{what} {one:?} and {other:?}"),
            done: "two: each is found only as it is written".to_owned(),
            about: None,
        }));
        if !collation.is_exact() {
            collations.insert(collation.name);
        }
    }
    let collations: Vec<String> = collations.into_iter().collect();
    let note = (!collations.is_empty()).then(|| {
        format!(
            "the old database finds names of providers, projects and users also in other spellings, such as in upper \
             case (collation {}); Berth finds them only as they are written",
            collations.join(", ")
        )
    });
    Ok((note, pairs))
}

/// Returns whether a column's comparison ignores case.
pub(super) async fn ignores_case(
    into: &mut Database,
    table: &str,
    column: &str,
) -> Result<bool, Error> {
    if into.dialect != Dialect::MySql {
        return Ok(false);
    }
    Ok(Collation::of(into, table, column).await?.is_some_and(|it| !it.is_exact()))
}

impl Collation {
    /// Reads the collation of a column; `None` if it compares bytes.
    async fn of(into: &mut Database, table: &str, column: &str) -> Result<Option<Self>, Error> {
        let query = format!(
            "select cast(collation_name as char), cast(character_set_name as char) \
             from information_schema.columns where table_schema = database() \
             and table_name = '{table}' and column_name = '{column}' and collation_name is not null"
        );
        let row = sqlx::query(AssertSqlSafe(query)).fetch_optional(&mut into.conn);
        let Some(row) = row.await.map_err(Error::Reference)? else { return Ok(None) };
        let text = |nth: usize| row.try_get::<String, _>(nth).map_err(Error::Reference);
        Ok(Some(Self { name: text(0)?, charset: text(1)? }))
    }

    /// # Errors
    /// A message with the first names that cannot be stored, or that are equal to others.
    fn check(&self, names: &[Name]) -> Result<(), String> {
        let long = |name: &&Name| !self.can_store(&name.0);
        let long: Vec<String> = names.iter().filter(long).map(|it| format!("{:?}", it.0)).collect();
        if !long.is_empty() {
            return Err(format!(
                "the database cannot store characters of 4 bytes (character set {}), which {} names have: {}. \
                 Export into a database with utf8mb4, or rename them first",
                self.charset,
                long.len(),
                first(&long)
            ));
        }
        let mut known: HashMap<String, &str> = HashMap::new();
        let mut same = Vec::new();
        for name in names {
            if let Some(other) = known.insert(self.compared(name), &name.0) {
                same.push(format!("{other:?} and {:?}", name.0));
            }
        }
        if same.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the database does not tell {} pairs of names apart (collation {}): {}. Export into a database whose \
             collation does, such as utf8mb4_bin, or rename them first",
            same.len(),
            self.name,
            first(&same)
        ))
    }

    /// Returns whether the comparison is case-sensitive.
    fn is_exact(&self) -> bool {
        self.name.ends_with("_bin") || self.name.contains("_cs")
    }

    fn can_store(&self, name: &str) -> bool {
        let is_short = matches!(self.charset.as_str(), "utf8" | "utf8mb3");
        !is_short || name.chars().all(|it| it.len_utf8() < 4)
    }

    /// The comparison key of a name: names with the same key are equal to the database.
    fn compared(&self, (name, divided): &Name) -> String {
        let compared = if self.is_exact() {
            name.clone()
        } else if self.name.contains("_as_") {
            name.to_lowercase()
        } else {
            divided.chars().filter(|it| !is_accent(*it)).collect::<String>().to_lowercase()
        };
        // Older collations ignore trailing blanks.
        if self.name.contains("_0900_") || self.name.contains("nopad") {
            compared
        } else {
            compared.trim_end_matches(' ').to_owned()
        }
    }
}

fn is_accent(character: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::{Collation, Name};

    fn checked(collation: &str, names: &[&str]) -> Result<(), String> {
        let (charset, _) = collation.split_once('_').unwrap();
        let collation = Collation { name: collation.to_owned(), charset: charset.to_owned() };
        let name = |it: &&str| ((*it).to_owned(), it.replace('\u{e9}', "e\u{301}"));
        collation.check(&names.iter().map(name).collect::<Vec<Name>>())
    }

    #[test]
    fn names_that_are_one_to_the_database_are_named() {
        for same in [["Host", "hOST"], ["caf\u{e9}", "cafe"], ["a", "a "]] {
            let why = checked("utf8mb3_general_ci", &same).unwrap_err();
            assert!(why.contains(&format!("{:?} and {:?}", same[0], same[1])), "{why}");
        }
        assert_eq!(checked("utf8mb4_0900_as_ci", &["caf\u{e9}", "cafe", "a", "a "]), Ok(()));
        assert!(checked("utf8mb4_0900_as_ci", &["caf\u{e9}", "CAF\u{e9}"]).is_err());
        assert_eq!(checked("utf8mb4_bin", &["Host", "hOST"]), Ok(()));
        assert!(checked("utf8mb4_bin", &["a", "a "]).is_err());
    }

    #[test]
    fn characters_of_four_bytes_are_named() {
        let why = checked("utf8mb3_bin", &["a", "rack \u{1f680}"]).unwrap_err();
        assert!(why.contains("which 1 names have: \"rack \u{1f680}\""), "{why}");
        assert_eq!(checked("utf8mb4_general_ci", &["rack \u{1f680}"]), Ok(()));
    }
}
