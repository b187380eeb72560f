//! The SQL around a restore: drops the existing tables, and checks that the new ones are Berth's.

use super::expected::{EXPECTED, MIGRATOR, OBJECTS, OURS};

/// Returns statements that drop all objects made by migrations of this program, if they exist, and nothing else.
pub fn drop_script() -> String {
    let of = |kind: &str| {
        let prefix = format!("{kind} ");
        let names = EXPECTED.lines().filter_map(|object| object.strip_prefix(&prefix));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let (views, functions, mut tables) = (of("view"), of("function"), of("table"));
    tables.push("_sqlx_migrations".to_owned());
    let mut script = "set client_min_messages = warning;\n".to_owned();
    for (kind, names) in [("view", views), ("table", tables), ("function", functions)] {
        let line = format!("drop {kind} if exists {};\n", names.join(", "));
        script.push_str(&line);
    }
    script
}

/// Returns a script for psql that fails unless the database has the schema of Berth with its data: that of this
/// program completely, or that of an older or a newer one. It leaves the role's search path unchanged.
pub fn check_script() -> String {
    let known: Vec<String> = MIGRATOR.iter().map(|it| it.version.to_string()).collect();
    let first = MIGRATOR.iter().next();
    let is_first = first.map_or_else(
        || "false".to_owned(),
        |it| format!("version = {} and description = {}", it.version, quoted(&it.description)),
    );
    let expected: Vec<String> = EXPECTED.lines().map(|it| format!("({})", quoted(it))).collect();
    format!(
        r"reset search_path;
\set VERBOSITY terse
do $check$
declare
    lacking text;
begin
    if to_regclass('_sqlx_migrations') is null or to_regclass('{OURS}') is null then
        raise exception 'the file is not a dump of Berth: it does not have its tables';
    end if;
    if not exists (select from _sqlx_migrations where success and {is_first}) then
        raise exception 'the file is not a dump of Berth: it does not say which migrations were applied';
    end if;
    if not exists (select from {OURS}) then
        raise exception 'the file is not a complete dump of Berth: it has the tables without their rows';
    end if;
    if (select array_agg(version order by version) from _sqlx_migrations where success)
        <> array[{known}]::bigint[] then
        return;
    end if;
    select min(object) into lacking from (values {expected}) as needed (object)
    where object not in ({objects});
    if lacking is not null then
        raise exception 'the file is not a complete dump of Berth: it has no %', lacking;
    end if;
end $check$;
",
        known = known.join(", "),
        expected = expected.join(", "),
        objects = OBJECTS,
    )
}

/// Quotes a text for SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
