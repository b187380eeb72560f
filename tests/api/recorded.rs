//! The files that `tools/sqlx` writes, compared with the migrations: descriptions of queries, with which the crate is
//! compiled without a database, and the list of the objects of a schema.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqlSafeStr};

use crate::support::postgres::database;

const REMEDY: &str = "run `make sqlx`";

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the recorded descriptions by query.
fn recorded() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(path(".sqlx")).unwrap();
    let records = files.map(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut record: Value = serde_json::from_str(&text).unwrap();
        (record["query"].as_str().unwrap().to_owned(), record["describe"].take())
    });
    records.collect()
}

/// Adds the texts of all sources below a folder.
fn add_sources(folder: &Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, sources);
        } else {
            sources.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Removes the nullability of columns whose name overrides it: it depends on the plan of the query.
fn significant(mut description: Value) -> Value {
    let columns = description["columns"].as_array().unwrap().clone();
    for (nth, column) in columns.iter().enumerate() {
        if column["name"].as_str().unwrap().ends_with(['!', '?']) {
            description["nullable"][nth].take();
        }
    }
    description
}

#[tokio::test]
async fn recorded_descriptions_of_queries_are_current() {
    let mut session = PgConnection::connect_with(&database().await).await.unwrap();
    for (query, expected) in recorded() {
        let description = session.describe(AssertSqlSafe(query.clone()).into_sql_str()).await;
        let description = description.unwrap_or_else(|error| panic!("{query}: {error}"));
        let description = serde_json::to_value(description).unwrap();
        assert_eq!(significant(description), significant(expected), "{REMEDY}: {query}");
    }
}

/// The compiler checks that each query of the sources is recorded.
#[test]
fn each_recorded_query_is_in_the_sources() {
    let mut sources = String::new();
    add_sources(&path("src"), &mut sources);
    let between_parts = Regex::new(r##"\\\n\s*|"#?\s*\+\s*(r#)?""##).unwrap();
    let sources = between_parts.replace_all(&sources, "");
    let has = |text: &str| sources.contains(text) || sources.contains(&text.replace('"', "\\\""));
    for query in recorded().keys() {
        // A macro may append its argument.
        let has_parts = |at| has(&query[..at]) && has(&query[at..]);
        let is_used =
            has(query) || (1..query.len()).any(|at| query.is_char_boundary(at) && has_parts(at));
        assert!(is_used, "{REMEDY}: {query}");
    }
}

#[tokio::test]
async fn recorded_objects_of_the_schema_are_current() {
    let mut session = PgConnection::connect_with(&database().await).await.unwrap();
    let schema = path("src/store/schema");
    let read = |name| std::fs::read_to_string(schema.join(name)).unwrap();
    let query = AssertSqlSafe(read("objects.sql"));
    let objects: Vec<String> = sqlx::query_scalar(query).fetch_all(&mut session).await.unwrap();
    assert_eq!(objects.join("\n") + "\n", read("objects.txt"), "{REMEDY}");
}
