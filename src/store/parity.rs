//! That the migrations of both engines make the same schema.

use std::collections::BTreeSet;

use provost_actors::host::LOCAL;

use super::{Store, TimesToLive, former, open, schema, scratch};
use crate::store::Sql;

/// What each line says: a column, a key, an index, a view's column or a trigger.
const OF_SQLITE: &[&str] = &[
    "SELECT m.name || '.' || c.name || ' ' || CASE c.type WHEN 'INTEGER' THEN 'bigint' ELSE 'text' END
            || CASE WHEN c.\"notnull\" OR c.pk > 0 THEN ' not null' ELSE '' END
            || coalesce(' default ' || c.dflt_value, '')
     FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND TABLES",
    "SELECT m.name || ' primary key ' || group_concat(c.name, ', ' ORDER BY c.pk)
     FROM sqlite_master m JOIN pragma_table_info(m.name) c
     WHERE m.type = 'table' AND c.pk > 0 AND TABLES GROUP BY m.name",
    "SELECT m.name || ' unique ' || group_concat(c.name, ', ' ORDER BY c.seqno)
     FROM sqlite_master m JOIN pragma_index_list(m.name) i JOIN pragma_index_info(i.name) c
     WHERE m.type = 'table' AND i.origin = 'u' AND TABLES GROUP BY m.name, i.name",
    "SELECT m.name || '.' || f.\"from\" || ' references ' || f.\"table\" || '.' || f.\"to\" || ' '
            || lower(f.on_delete)
     FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table' AND TABLES",
    "SELECT i.name || CASE i.\"unique\" WHEN 1 THEN ' unique on ' ELSE ' on ' END || m.name || ' '
            || group_concat(c.name, ', ' ORDER BY c.seqno)
     FROM sqlite_master m JOIN pragma_index_list(m.name) i JOIN pragma_index_info(i.name) c
     WHERE m.type = 'table' AND i.origin = 'c' AND TABLES GROUP BY m.name, i.name",
    "SELECT m.name || ' shows ' || c.name
     FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'view'",
    "SELECT name || ' after ' || lower(substr(substr(sql, instr(sql, ' AFTER ') + 7), 1, 6))
            || ' on ' || tbl_name
     FROM sqlite_master WHERE type = 'trigger'",
];

const OF_POSTGRES: &[&str] = &[
    "SELECT t.relname || '.' || a.attname || ' ' || format_type(a.atttypid, NULL)
            || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
            || coalesce(' default ' || split_part(pg_get_expr(d.adbin, d.adrelid), '::', 1), '')
     FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
     LEFT JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum
     WHERE t.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND TABLES",
    "SELECT t.relname || ' primary key ' || COLUMNS FROM pg_constraint c
     JOIN pg_class t ON t.oid = c.conrelid WHERE c.contype = 'p' AND TABLES",
    "SELECT t.relname || ' unique ' || COLUMNS FROM pg_constraint c
     JOIN pg_class t ON t.oid = c.conrelid WHERE c.contype = 'u' AND TABLES",
    "SELECT t.relname || '.' || COLUMNS || ' references ' || f.relname || '.'
            || (SELECT attname FROM pg_attribute
                WHERE attrelid = f.oid AND attnum = c.confkey[1])
            || CASE c.confdeltype WHEN 'a' THEN ' no action' WHEN 'c' THEN ' cascade' END
     FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
     JOIN pg_class f ON f.oid = c.confrelid WHERE c.contype = 'f' AND TABLES",
    "SELECT n.relname || CASE WHEN i.indisunique THEN ' unique on ' ELSE ' on ' END || t.relname || ' '
            || (SELECT string_agg(a.attname, ', ' ORDER BY k.place)
                FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum)
     FROM pg_index i JOIN pg_class n ON n.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
     WHERE NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid
                       AND c.contype IN ('p', 'u')) AND TABLES",
    "SELECT t.relname || ' shows ' || a.attname
     FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
     WHERE t.relkind = 'v' AND a.attnum > 0 AND TABLES",
    "SELECT g.tgname || ' after '
            || CASE WHEN g.tgtype & 4 > 0 THEN 'insert' WHEN g.tgtype & 8 > 0 THEN 'delete'
                    ELSE 'update' END || ' on ' || t.relname
     FROM pg_trigger g JOIN pg_class t ON t.oid = g.tgrelid
     WHERE NOT g.tgisinternal AND TABLES",
];

/// The predicates of partial indexes: the engines write them differently, so their words are compared.
const PREDICATES_OF_SQLITE: &str = "SELECT name, substr(sql, instr(sql, 'WHERE ') + 6)
    FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE %'";
const PREDICATES_OF_POSTGRES: &str = "SELECT n.relname, pg_get_expr(i.indpred, i.indrelid)
    FROM pg_index i JOIN pg_class n ON n.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
    WHERE i.indpred IS NOT NULL AND TABLES";

/// The tables that both have; each engine has its own for the text search.
fn with_tables(sql: &str, tables: &str) -> sqlx::AssertSqlSafe<String> {
    let columns = "(SELECT string_agg(a.attname, ', ' ORDER BY k.place)
        FROM unnest(c.conkey) WITH ORDINALITY k (attnum, place)
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum)";
    sqlx::AssertSqlSafe(sql.replace("TABLES", tables).replace("COLUMNS", columns))
}

async fn lines(store: &Store, all: &[&str], predicates: &str, tables: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for sql in all {
        let sql = with_tables(sql, tables);
        let lines: Vec<String> = store.read(async |db| db.all(sql, ()).await).await.unwrap();
        assert!(!lines.is_empty());
        found.extend(lines);
    }
    let sql = with_tables(predicates, tables);
    let said: Vec<(String, String)> = store.read(async |db| db.all(sql, ()).await).await.unwrap();
    for (index, predicate) in said {
        found.insert(format!("{index} where {}", words(&predicate)));
    }
    found
}

/// The columns, literals and comparisons of a predicate.
fn words(predicate: &str) -> String {
    let plain = predicate
        .replace("::text", "")
        .replace("::bigint", "")
        .replace("<> ALL (ARRAY", "NOT IN (")
        .replace("= ANY (ARRAY", "IN (")
        .replace(['(', ')', '[', ']', ','], " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn both_engines_have_migrations_of_the_same_numbers() {
    let numbers =
        |all: &sqlx::migrate::Migrator| -> Vec<i64> { all.iter().map(|it| it.version).collect() };
    let of_postgres = numbers(&schema::MIGRATIONS);
    assert_eq!(of_postgres.first(), Some(&former::FIRST));
    assert_eq!(numbers(&open::MIGRATIONS), of_postgres, "a migration comes for both engines");
}

#[tokio::test]
async fn both_engines_have_the_same_schema() {
    let Some(url) = scratch::server_url() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = Store::open(&dir.path().join("db"), TimesToLive::default()).await.unwrap();
    let server = scratch::server(&url, &dir.path().to_string_lossy()).await;
    let server = Store::open_server(&server, LOCAL, TimesToLive::default()).await.unwrap();
    let tables = "m.name NOT LIKE 'plan_passages%' AND m.name NOT IN ('_sqlx_migrations',
        'sqlite_sequence')";
    let of_sqlite = lines(&file, OF_SQLITE, PREDICATES_OF_SQLITE, tables).await;
    let tables = "t.relname NOT IN ('plan_passages', '_sqlx_migrations')
        AND t.relnamespace = CAST(current_schema() AS regnamespace)";
    let of_postgres = lines(&server, OF_POSTGRES, PREDICATES_OF_POSTGRES, tables).await;
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> Vec<String> {
        a.difference(b).cloned().collect()
    };
    assert_eq!(only(&of_sqlite, &of_postgres), [""; 0], "only SQLite has these");
    assert_eq!(only(&of_postgres, &of_sqlite), [""; 0], "only PostgreSQL has these");
    assert!(of_sqlite.len() > 300, "{}", of_sqlite.len());
}

#[tokio::test]
async fn a_server_has_one_role_for_all_hosts() {
    let Some(url) = scratch::server_url() else { return };
    let server = scratch::server(&url, "one role for all hosts").await;
    let store = Store::open_server(&server, LOCAL, TimesToLive::default()).await.unwrap();
    for sql in [
        "SELECT proname FROM pg_proc
         WHERE prosecdef AND pronamespace = CAST(current_schema() AS regnamespace)",
        "SELECT relname FROM pg_class
         WHERE relrowsecurity AND relnamespace = CAST(current_schema() AS regnamespace)",
        "SELECT policyname FROM pg_policies WHERE schemaname = current_schema()",
        "SELECT relname FROM pg_class WHERE relkind = 'v' AND reloptions IS NOT NULL
             AND relnamespace = CAST(current_schema() AS regnamespace)",
    ] {
        let found: Vec<String> = store.read(async |db| db.all(sql, ()).await).await.unwrap();
        assert_eq!(found, [""; 0], "{sql}");
    }
}
